// SPDX-License-Identifier: Apache-2.0
#include <boost/json/object.hpp>

#include "cli/files.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"
#include "cli/under_lock.hpp"
#include "cli/units.hpp"

namespace dlock::cli {
namespace {

using std::chrono::milliseconds;

class Run {
public:
    int perform(const Verb& verb, const Call& call);

private:
    void check();
    Report run();
    Report watch(Client& client, Lease& lease, Events& events) const;
    [[nodiscard]] Lease adopt(const Client& client) const;
    [[nodiscard]] OnceStart begin(const Client& client, Events& events) const;
    [[nodiscard]] std::optional<Report> skipped(const Failure& failure) const;

    UnderLock under_;
    std::optional<std::string> adopt_;
    std::optional<std::string> if_busy_;
    std::optional<std::string> once_per_text_;
    milliseconds once_per_{0};
};

void Run::check() {
    if (if_busy_ && *if_busy_ != "skip" && *if_busy_ != "fail" && *if_busy_ != "wait")
        throw Failure(errc::invalid_argument, "--if-busy '" + *if_busy_ + "': give skip, fail or wait");
    if (if_busy_ == "wait" && under_.asking.options.wait == milliseconds::zero())
        throw Failure(errc::invalid_argument, "--if-busy wait and a wait of 0 exclude each other");
    if (if_busy_ && *if_busy_ != "wait" && !under_.asking.wait_given())
        under_.asking.options.wait = milliseconds::zero();
    if (!once_per_text_) return;
    once_per_ = parse_duration("--once-per", *once_per_text_, Least::more_than_zero);
    if (adopt_ || under_.asking.as != Asking::As::mutex)
        throw Failure(errc::invalid_argument,
                      "--once-per needs a lock of its own: not with --adopt, -s, -x or --permits");
}

/// The grant of an id that `dlock acquire` printed, or a detached one of a program.
Lease Run::adopt(const Client& client) const {
    if (*adopt_ == "-")
        throw Failure(errc::invalid_argument,
                      "--adopt -: stdin is the command's; give a file with the lease id");
    const LeaseId id = read_lease_id(*adopt_);
    if (id.key() != under_.asking.key)
        throw Failure(errc::invalid_argument, "--adopt: the lease id is of the key " + id.key().text() +
                                                  ", not of " + under_.asking.key.text());
    return value_or_fail(client.adopt(id, under_.asking.options, under_.asking.context));
}

/// The lock, or the success of another run that is young enough. A result that an earlier run left for longer
/// than we ask for is as good as none; since one so old hides the runs of the same moment, it is looked at
/// again under the lock.
OnceStart Run::begin(const Client& client, Events& events) const {
    OnceStart start = acquire_or_result(client, under_.asking, events);
    const auto fresh = [&] {
        const auto* known = std::get_if<Outcome>(&start);
        return known != nullptr && known->age < once_per_;
    };
    if (std::holds_alternative<Lease>(start) || fresh()) return start;
    Lease lease = acquire(client, under_.asking, events);
    Asking look = under_.asking;
    look.options.wait = milliseconds::zero();
    auto again = look_for_result(client, look);
    if (again && again->age < once_per_) return OnceStart(*std::move(again));
    return OnceStart(std::move(lease));
}

Report Run::watch(Client& client, Lease& lease, Events& events) const {
    const std::optional<Fence> fence = lease.fence();
    Ending ending = under_.run(lease, events);
    const bool keeps = succeeded(ending) && once_per_ != milliseconds::zero();
    under_.end(client, lease, ending, keeps ? std::optional(UnderLock::Keep{"", once_per_}) : std::nullopt);
    (void)client.close();  // what it could say is said already
    return under_.report(ending, fence);
}

Report Run::run() {
    check();
    Events events;
    Client client = under_.open();
    if (once_per_ == milliseconds::zero()) {
        Lease lease = adopt_ ? adopt(client) : acquire(client, under_.asking, events);
        return watch(client, lease, events);
    }
    OnceStart start = begin(client, events);
    if (auto* lease = std::get_if<Lease>(&start)) return watch(client, *lease, events);
    const auto& known = std::get<Outcome>(start);
    say(describe(under_.asking.key, known) + "; not again within " + human(once_per_));
    return report_of(under_.asking.key, known);
}

/// Busy is no failure with --if-busy skip.
std::optional<Report> Run::skipped(const Failure& failure) const {
    const bool busy = failure.name() == "contended" || failure.name() == "timed_out";
    if (if_busy_ != "skip" || !busy) return std::nullopt;
    Report report;
    report.object = json_of(failure);
    report.object["outcome"] = "skipped";
    report.object["exit"] = exit_code::ok;
    const std::string seen = failure.seen ? " is " + describe(*failure.seen) : " is busy";
    say(under_.asking.key.text() + seen + "; skipped");
    return report;
}

int Run::perform(const Verb& verb, const Call& call) {
    Syntax syntax(verb);
    under_.declare(syntax);
    under_.asking.declare_mode(syntax);
    under_.asking.declare_after(syntax);
    syntax.option("--adopt", "FILE", adopt_,
                  "Do not take the lock: take over the one whose lease id is in this file");
    syntax.option("--if-busy", "WHAT", if_busy_,
                  "skip: exit 0 and say who holds it; fail: as -n; wait: the default");
    syntax.option("--once-per", "DURATION", once_per_text_,
                  "Only if no run of it succeeded (exit 0) within so long");
    return under_.perform(
        verb, syntax, call, [this] { return run(); },
        [this](const Failure& failure) { return skipped(failure); });
}

}  // namespace

const Verb run_verb = {"run", "run [OPTIONS] KEY -- COMMAND [ARGUMENTS...]",
                       "Run a command while holding a lock.",
                       "  dlock run billing/close-month -- ./close-month.sh\n"
                       "      wait as long as it takes, run, release\n"
                       "  dlock run -n nightly -- backup /srv || echo 'not had, lost, or it failed'\n"
                       "      do not wait; exit 75 when another holds it\n"
                       "  dlock run --wait 5m --lease 10s --note 'deploy 2.14' deploy/web -- make deploy\n"
                       "  dlock run --status-file /run/job.json -E 0 job -- ./job\n"
                       "  dlock run --once-per 20h --if-busy skip nightly -- ./nightly\n"
                       "      from the cron of every host: one runs it, a failed one is made up for\n"
                       "  dlock run --permits 3 encoders -- ./encode film.mkv\n"
                       "      at most three at a time\n"
                       "  dlock run -s catalog -- ./report; dlock run -x catalog -- ./rebuild\n"
                       "      readers together, the writer alone\n",
                       [](const Verb& verb, Call& call) { return Run().perform(verb, call); }};

}  // namespace dlock::cli
