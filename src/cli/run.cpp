// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <unistd.h>

#include "cli/command.hpp"
#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/supervise.hpp"
#include "cli/text.hpp"
#include "cli/units.hpp"
#include "cli/verbs.hpp"
#include "cli/waiting.hpp"

namespace dlock::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

/// What the run came to, for --json and --status-file.
struct Outcome {
    json::object object;
    int exit = exit_code::ok;
};

class Run {
public:
    int perform(const Verb& verb, const Call& call);

private:
    void check(const Call& call);
    void clear_status() const;
    Outcome outcome_of(const Call& call);
    Outcome run();
    [[nodiscard]] Lease adopt(const Client& client) const;
    Outcome watch(Client& client, Lease& lease, Events& events, const TemporaryFile& lease_file);
    [[nodiscard]] Outcome to_outcome(const Ending& ending, const std::optional<Fence>& fence) const;
    [[nodiscard]] Outcome to_outcome(const Failure& failure) const;
    [[nodiscard]] std::vector<std::string> environment(const Lease& lease,
                                                       const TemporaryFile& lease_file) const;
    void keep(const Outcome& outcome) const noexcept;

    Asking asking_;
    std::optional<std::string> adopt_;
    std::optional<std::string> max_hold_text_;
    std::optional<std::string> grace_text_;
    std::optional<std::string> status_file_;
    milliseconds grace_{};
    std::vector<std::string> command_;
};

void Run::check(const Call& call) {
    if (!call.command || call.command->empty() || call.command->front().empty())
        throw Failure(errc::invalid_argument, "no command; write dlock run KEY -- COMMAND...");
    command_ = *call.command;
    asking_.check();
    if (max_hold_text_)
        asking_.options.max_hold = parse_duration("--max-hold", *max_hold_text_, Least::more_than_zero);
    const milliseconds lease = std::min(asking_.options.lease, asking_.options.max_hold);
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
void Run::clear_status() const {
    if (status_file_ && ::unlink(status_file_->c_str()) != 0 && errno != ENOENT)
        throw Failure(exit_code::internal, "file",
                      "cannot replace the status file " + *status_file_ + ": " + std::strerror(errno));
}

std::vector<std::string> Run::environment(const Lease& lease, const TemporaryFile& lease_file) const {
    std::vector<std::string> result;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        if (!text.starts_with("DLOCK_KEY=") && !text.starts_with("DLOCK_FENCE=") &&
            !text.starts_with("DLOCK_LEASE_FILE="))
            result.emplace_back(text);
    }
    result.push_back("DLOCK_KEY=" + asking_.key.text());
    if (const auto fence = lease.fence()) result.push_back("DLOCK_FENCE=" + std::to_string(fence->value));
    result.push_back("DLOCK_LEASE_FILE=" + lease_file.path());
    return result;
}

Outcome Run::to_outcome(const Ending& ending, const std::optional<Fence>& fence) const {
    Outcome result;
    const Command::Status& status = ending.status;
    result.exit = ending.over_limit    ? exit_code::over_limit
                  : ending.lost        ? exit_code::lost
                  : status.signal != 0 ? exit_code::signal_base + status.signal
                                       : status.code;
    result.object["outcome"] = ending.over_limit ? "max_hold" : ending.lost ? "lost" : "ran";
    result.object["exit"] = result.exit;
    result.object["key"] = asking_.key.text();
    result.object["fence"] = json_of(fence);
    result.object["commandExit"] = status.signal != 0 ? json::value(nullptr) : json::value(status.code);
    result.object["commandSignal"] = status.signal == 0 ? json::value(nullptr) : json::value(status.signal);
    if (ending.lost) result.object["reason"] = utf8(ending.reason);
    return result;
}

Outcome Run::to_outcome(const Failure& failure) const {
    Outcome result;
    result.exit = failure.exit();
    result.object = json_of(failure);
    const bool not_had =
        failure.name() == "contended" || failure.name() == "timed_out" || failure.name() == "cancelled";
    result.object["outcome"] = not_had ? "not_had" : failure.name() == "lost" ? "lost" : "error";
    result.object["exit"] = result.exit;
    return result;
}

void Run::keep(const Outcome& outcome) const noexcept {
    try {
        if (status_file_) replace_file(*status_file_, json::serialize(outcome.object) + "\n");
    } catch (const std::exception& problem) {
        say(problem.what());
    }
}

Outcome Run::watch(Client& client, Lease& lease, Events& events, const TemporaryFile& lease_file) {
    const std::optional<Fence> fence = lease.fence();
    Ending ending;
    {
        Terminal terminal;
        Command command(command_, environment(lease, lease_file), events.original_mask(), terminal);
        ending = supervise(command, lease, grace_, events, terminal);
    }
    const Result<void> released = lease.release();
    if (!ending.lost && !released) {
        const Error& error = released.error();
        if (error == errc::lost || error == errc::not_owner) {
            ending.lost = true;
            ending.reason = error.message();
            say("the lock was lost while the command ran: " + printable(ending.reason));
        } else {
            say("the release is not confirmed (" + printable(error.message()) +
                "); the lock ends by itself within " + human(asking_.options.lease));
        }
    }
    (void)client.close();  // what it could say is said already
    return to_outcome(ending, fence);
}

/// The grant of an id that `dlock acquire` printed, or a detached one of a program.
Lease Run::adopt(const Client& client) const {
    if (*adopt_ == "-")
        throw Failure(errc::invalid_argument,
                      "--adopt -: stdin is the command's; give a file with the lease id");
    const LeaseId id = read_lease_id(*adopt_);
    if (id.key() != asking_.key)
        throw Failure(errc::invalid_argument, "--adopt: the lease id is of the key " + id.key().text() +
                                                  ", not of " + asking_.key.text());
    return value_or_fail(client.adopt(id, asking_.options, asking_.context));
}

Outcome Run::run() {
    Events events;
    const std::string& program = command_.front();
    const std::string service = program.substr(program.rfind('/') + 1);
    Client client = open_client(asking_.common, utf8(service).size() <= 256 ? utf8(service) : "dlock");
    const TemporaryFile lease_file;
    Lease lease = adopt_ ? adopt(client) : acquire(client, asking_, events);
    lease_file.write(lease.id().text() + "\n");
    if (!lease.held()) throw Failure(errc::lost, "lost before the command began: " + lease.lost_reason());
    return watch(client, lease, events, lease_file);
}

int Run::perform(const Verb& verb, const Call& call) {
    Syntax syntax(verb);
    asking_.declare(syntax);
    syntax.option("--adopt", "FILE", adopt_,
                  "Do not take the lock: take over the one whose lease id is in this file");
    syntax.option("--max-hold", "DURATION", max_hold_text_,
                  "End the command, and free the lock, after so long; exit code 124");
    syntax.option("--grace", "DURATION", grace_text_,
                  "Time between TERM and KILL when the lock is lost; default lease/6, at most 5s");
    syntax.option("--status-file", "FILE", status_file_, "Write how it ended to this file, as JSON");
    if (const auto done = syntax.parse(call)) return *done;
    const Outcome outcome = outcome_of(call);
    if (asking_.common.json) print(outcome.object);
    return outcome.exit;
}

Outcome Run::outcome_of(const Call& call) {
    try {
        clear_status();
        check(call);
        Outcome outcome = run();
        keep(outcome);
        return outcome;
    } catch (const Failure& failure) {
        keep(to_outcome(failure));
        throw;
    } catch (const std::exception& problem) {
        const Failure failure(exit_code::internal, "internal", problem.what());
        keep(to_outcome(failure));
        throw failure;
    }
}

}  // namespace

const Verb run_verb = {"run", "run [OPTIONS] KEY -- COMMAND [ARGUMENTS...]",
                       "Run a command while holding a lock.",
                       "  dlock run billing/close-month -- ./close-month.sh\n"
                       "      wait as long as it takes, run, release\n"
                       "  dlock run -n nightly -- backup /srv || echo 'not had, lost, or it failed'\n"
                       "      do not wait; exit 75 when another holds it\n"
                       "  dlock run --wait 5m --lease 10s --note 'deploy 2.14' deploy/web -- make deploy\n"
                       "  dlock run --status-file /run/job.json -E 0 job -- ./job\n",
                       [](const Verb& verb, Call& call) { return Run().perform(verb, call); }};

}  // namespace dlock::cli
