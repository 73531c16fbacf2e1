// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/object.hpp>

#include "cli/supervise.hpp"
#include "cli/verbs.hpp"
#include "cli/waiting.hpp"

namespace dlock::cli {

/// What a verb that runs a command came to, for --json and --status-file.
struct Report {
    boost::json::object object;
    int exit = 0;
};

/// A command that runs while a lock is held: what `run`, `once` and `lead` have in common.
class UnderLock {
public:
    /// The options of asking, --max-hold, --grace and --status-file.
    void declare(Syntax& syntax);
    /// Reads what declare() took. Failure (64) naming the option.
    void check(const Verb& verb, const Call& call);
    /// Parses, checks, lets `work` do its part, and leaves its report where it is wanted. A Failure is
    /// reported by `on_failure` where that gives something.
    int perform(const Verb& verb, Syntax& syntax, const Call& call, const std::function<Report()>& work,
                const std::function<std::optional<Report>(const Failure&)>& on_failure = nullptr);

    /// The store, with the command's name as the service.
    [[nodiscard]] Client open(const ClientOptions& options = {}) const;
    /// Runs the command to its end; what becomes of the lease after that is the caller's. `out`: its stdout,
    /// where that is not ours.
    [[nodiscard]] Ending run(const Lease& lease, Events& events, int out = -1) const;
    /// Ends the lock, and puts what the store says of that into `ending`. With `keep`, of a command that
    /// succeeded, it leaves the result for who comes within that time. Failure when it is not certain that it
    /// does.
    struct Keep {
        std::string result;
        std::chrono::milliseconds time;
    };
    void end(const Client& client, Lease& lease, Ending& ending,
             const std::optional<Keep>& keep = std::nullopt) const;
    [[nodiscard]] Report report(const Ending& ending, const std::optional<Fence>& fence) const;

    Asking asking;

private:
    [[nodiscard]] Result<void> finish(const Client& client, Lease& lease, const Keep& keep) const;
    void settle(Ending& ending, const Result<void>& released) const;
    void clear_status() const;
    void keep(const Report& report) const noexcept;
    [[nodiscard]] Report guarded(
        const std::function<Report()>& work,
        const std::function<std::optional<Report>(const Failure&)>& on_failure) const;
    [[nodiscard]] std::vector<std::string> environment(const Lease& lease, const std::string& file) const;

    std::optional<std::string> max_hold_text_;
    std::optional<std::string> grace_text_;
    std::optional<std::string> status_file_;
    std::chrono::milliseconds grace_{};
    std::vector<std::string> command_;
};

/// Exit code 0, under a lock that was held to the end.
[[nodiscard]] bool succeeded(const Ending& ending) noexcept;

/// The outcome of work that is done already: `key`, `by`, `ageMs`, `at`.
Report report_of(const Key& key, const Outcome& outcome);

}  // namespace dlock::cli
