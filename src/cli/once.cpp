// SPDX-License-Identifier: Apache-2.0
#include "cli/capture.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"
#include "cli/under_lock.hpp"
#include "cli/units.hpp"

namespace dlock::cli {
namespace {

constexpr auto default_keep = std::chrono::hours(24);

class Once {
public:
    int perform(const Verb& verb, const Call& call);

private:
    Report run();
    Report do_it(Client& client, Lease& lease, Events& events);
    [[nodiscard]] Report known(const Outcome& outcome) const;
    /// Ends the lock, with the result where there is one.
    void settle(const Client& client, Lease& lease, Ending& ending, const Capture& output) const;

    UnderLock under_;
    std::optional<std::string> keep_text_;
    std::chrono::milliseconds keep_ = default_keep;
};

Report Once::known(const Outcome& outcome) const {
    say(describe(under_.asking.key, outcome));
    Report report = report_of(under_.asking.key, outcome);
    report.object["result"] = utf8(outcome.result);
    if (!under_.asking.common.json) print(outcome.result);
    return report;
}

void Once::settle(const Client& client, Lease& lease, Ending& ending, const Capture& output) const {
    if (!succeeded(ending)) return under_.end(client, lease, ending);
    if (output.size() <= Lease::most_result)
        return under_.end(client, lease, ending, UnderLock::Keep{output.text(), keep_});
    (void)lease.release();
    throw Failure(errc::invalid_argument,
                  "the command succeeded, but its output of " + std::to_string(output.size()) +
                      " bytes is more than the " + std::to_string(Lease::most_result) +
                      " that can be kept, so the next one runs it again; have it print where its result is");
}

Report Once::do_it(Client& client, Lease& lease, Events& events) {
    const std::optional<Fence> fence = lease.fence();
    Capture output(Lease::most_result, under_.asking.common.json ? Capture::Show::no : Capture::Show::yes);
    Ending ending = under_.run(lease, events, output.write_end());
    output.finish();
    settle(client, lease, ending, output);
    (void)client.close();  // what it could say is said already
    Report report = under_.report(ending, fence);
    report.object["result"] = utf8(output.text());
    return report;
}

Report Once::run() {
    if (keep_text_) keep_ = parse_duration("--keep", *keep_text_, Least::more_than_zero);
    Events events;
    Client client = under_.open();
    OnceStart start = acquire_or_result(client, under_.asking, events);
    if (auto* lease = std::get_if<Lease>(&start)) return do_it(client, *lease, events);
    return known(std::get<Outcome>(start));
}

int Once::perform(const Verb& verb, const Call& call) {
    Syntax syntax(verb);
    under_.declare(syntax);
    syntax.option("--keep", "DURATION", keep_text_, "How long the result counts; default 24h");
    return under_.perform(verb, syntax, call, [this] { return run(); });
}

}  // namespace

const Verb once_verb = {
    "once", "once [OPTIONS] KEY -- COMMAND [ARGUMENTS...]",
    "Run a command once; who comes later, or waits for it, gets its output.\n"
    "An exit code of 0 keeps the output, up to 4096 bytes, for --keep. Else the next one runs it.",
    "  dlock once migrations/2.14 -- ./migrate\n"
    "  token=$(dlock once --keep 50m token/api -- ./fetch-token)\n"
    "      one of all hosts fetches it, each gets it\n",
    [](const Verb& verb, Call& call) { return Once().perform(verb, call); }};

}  // namespace dlock::cli
