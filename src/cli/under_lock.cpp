// SPDX-License-Identifier: Apache-2.0
#include "cli/under_lock.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <boost/json/serialize.hpp>
#include <unistd.h>

#include "cli/command.hpp"
#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"
#include "cli/units.hpp"

namespace dlock::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

Report report_of(const Failure& failure) {
    Report report;
    report.exit = failure.exit();
    report.object = json_of(failure);
    const bool not_had =
        failure.name() == "contended" || failure.name() == "timed_out" || failure.name() == "cancelled";
    report.object["outcome"] = not_had ? "not_had" : failure.name() == "lost" ? "lost" : "error";
    report.object["exit"] = report.exit;
    return report;
}

}  // namespace

void UnderLock::declare(Syntax& syntax) {
    asking.declare(syntax);
    syntax.option("--max-hold", "DURATION", max_hold_text_,
                  "End the command, and free the lock, after so long; exit code 124");
    syntax.option("--grace", "DURATION", grace_text_,
                  "Time between TERM and KILL when the lock is lost; default lease/6, at most 5s");
    syntax.option("--status-file", "FILE", status_file_, "Write how it ended to this file, as JSON");
}

void UnderLock::check(const Verb& verb, const Call& call) {
    if (!call.command || call.command->empty() || call.command->front().empty())
        throw Failure(errc::invalid_argument,
                      "no command; write dlock " + std::string(verb.name) + " KEY -- COMMAND...");
    command_ = *call.command;
    asking.check();
    if (max_hold_text_)
        asking.options.max_hold = parse_duration("--max-hold", *max_hold_text_, Least::more_than_zero);
    const milliseconds lease = std::min(asking.options.lease, asking.options.max_hold);
    grace_ = std::min<milliseconds>(lease / 6, std::chrono::seconds(5));
    if (!grace_text_) return;
    grace_ = parse_duration("--grace", *grace_text_, Least::zero);
    // Room for the margin (never more than this) and for two renewals that fail, one each third of the lease.
    const milliseconds most = lease / 3 - std::max<milliseconds>(lease / 20, milliseconds(10));
    if (grace_ >= most)
        throw Failure(errc::invalid_argument, "--grace " + *grace_text_ + " is too long for a lease of " +
                                                  human(lease) +
                                                  ": two renewals must fit in before it; give less than " +
                                                  std::to_string(std::max<std::int64_t>(most.count(), 1)) +
                                                  "ms, or a longer --lease");
}

/// An old outcome must not be taken for this run's, should this process be killed.
void UnderLock::clear_status() const {
    if (status_file_ && ::unlink(status_file_->c_str()) != 0 && errno != ENOENT)
        throw Failure(exit_code::internal, "file",
                      "cannot replace the status file " + *status_file_ + ": " + std::strerror(errno));
}

void UnderLock::keep(const Report& report) const noexcept {
    try {
        if (status_file_) replace_file(*status_file_, json::serialize(report.object) + "\n");
    } catch (const std::exception& problem) {
        say(problem.what());
    }
}

Report UnderLock::guarded(const std::function<Report()>& work,
                          const std::function<std::optional<Report>(const Failure&)>& on_failure) const {
    try {
        clear_status();
        Report report = work();
        keep(report);
        return report;
    } catch (const Failure& failure) {
        if (auto report = on_failure ? on_failure(failure) : std::nullopt) {
            keep(*report);
            return *std::move(report);
        }
        keep(report_of(failure));
        throw;
    } catch (const std::exception& problem) {
        const Failure failure(exit_code::internal, "internal", problem.what());
        keep(report_of(failure));
        throw failure;
    }
}

int UnderLock::perform(const Verb& verb, Syntax& syntax, const Call& call,
                       const std::function<Report()>& work,
                       const std::function<std::optional<Report>(const Failure&)>& on_failure) {
    if (const auto done = syntax.parse(call)) return *done;
    const auto checked = [&] {
        check(verb, call);
        return work();
    };
    const Report report = guarded(checked, on_failure);
    if (asking.common.json) print(report.object);
    return report.exit;
}

Client UnderLock::open(const ClientOptions& options) const {
    const std::string& program = command_.front();
    const std::string service = utf8(program.substr(program.rfind('/') + 1));
    return open_client(asking.common, service.size() <= 256 ? service : "dlock", options);
}

std::vector<std::string> UnderLock::environment(const Lease& lease, const std::string& file) const {
    std::vector<std::string> result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (!text.starts_with("DLOCK_KEY=") && !text.starts_with("DLOCK_FENCE=") &&
            !text.starts_with("DLOCK_LEASE_FILE="))
            result.emplace_back(text);
    }
    result.push_back("DLOCK_KEY=" + asking.key.text());
    if (const auto fence = lease.fence()) result.push_back("DLOCK_FENCE=" + std::to_string(fence->value));
    result.push_back("DLOCK_LEASE_FILE=" + file);
    return result;
}

Ending UnderLock::run(const Lease& lease, Events& events, int out) const {
    const TemporaryFile lease_file;
    lease_file.write(lease.id().text() + "\n");
    if (!lease.held()) throw Failure(errc::lost, "lost before the command began: " + lease.lost_reason());
    Terminal terminal;
    Command command(command_, environment(lease, lease_file.path()), {events.original_mask(), out}, terminal);
    return supervise(command, lease, grace_, events, terminal);
}

bool succeeded(const Ending& ending) noexcept {
    return !ending.lost && ending.status.signal == 0 && ending.status.code == 0;
}

/// A release without answer: the store is asked for the result, which nobody had left before.
Result<void> UnderLock::finish(const Client& client, Lease& lease, const Keep& keep) const {
    Result<void> finished = lease.finish(keep.result, keep.time);
    if (finished || finished.error() != errc::unknown_outcome) return finished;
    Asking look = asking;
    look.options.wait = milliseconds::zero();
    const auto known = look_for_result(client, look);
    const bool ours = known && known->result == keep.result && known->by.pid == ::getpid();
    return ours ? Result<void>() : finished;
}

void UnderLock::end(const Client& client, Lease& lease, Ending& ending,
                    const std::optional<Keep>& keep) const {
    const Result<void> released = keep ? finish(client, lease, *keep) : lease.release();
    settle(ending, released);
    if (!keep || released || ending.lost) return;
    Error uncertain = released.error();
    uncertain.detail =
        "the command succeeded, but it is not certain that who comes next will know: " + uncertain.detail;
    throw Failure(uncertain);
}

void UnderLock::settle(Ending& ending, const Result<void>& released) const {
    if (ending.lost || released) return;
    const Error& error = released.error();
    if (error == errc::lost || error == errc::not_owner) {
        ending.lost = true;
        ending.reason = error.message();
        say("the lock was lost while the command ran: " + printable(ending.reason));
    } else {
        say("the release is not confirmed (" + printable(error.message()) +
            "); the lock ends by itself within " + human(asking.options.lease));
    }
}

Report UnderLock::report(const Ending& ending, const std::optional<Fence>& fence) const {
    Report result;
    const Command::Status& status = ending.status;
    result.exit = ending.over_limit    ? exit_code::over_limit
                  : ending.lost        ? exit_code::lost
                  : status.signal != 0 ? exit_code::signal_base + status.signal
                                       : status.code;
    result.object["outcome"] = ending.over_limit ? "max_hold" : ending.lost ? "lost" : "ran";
    result.object["exit"] = result.exit;
    result.object["key"] = asking.key.text();
    result.object["fence"] = json_of(fence);
    result.object["commandExit"] = status.signal != 0 ? json::value(nullptr) : json::value(status.code);
    result.object["commandSignal"] = status.signal == 0 ? json::value(nullptr) : json::value(status.signal);
    if (ending.lost) result.object["reason"] = utf8(ending.reason);
    return result;
}

Report report_of(const Key& key, const Outcome& outcome) {
    Report report;
    report.object["outcome"] = "done_before";
    report.object["exit"] = exit_code::ok;
    report.object["key"] = key.text();
    report.object["by"] = json_of(outcome.by);
    report.object["ageMs"] = outcome.age.count();
    report.object["at"] = json_of(outcome.at);
    return report;
}

}  // namespace dlock::cli
