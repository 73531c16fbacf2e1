// SPDX-License-Identifier: Apache-2.0
#include <csignal>

#include "cli/output.hpp"
#include "cli/text.hpp"
#include "cli/under_lock.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

/// Between two tries, and before a command that ended is started again: others may lead meanwhile.
constexpr auto stand_back = 1s;

class Lead {
public:
    int perform(const Verb& verb, const Call& call);

private:
    Report run();
    [[nodiscard]] std::optional<Lease> elected(const Client& client, Events& events) const;
    [[nodiscard]] bool stands_again(const Ending& ending) const;
    void pause(Events& events) const;

    UnderLock under_;
    bool restart_ = false;
};

/// Nothing when it is worth while to try again.
std::optional<Lease> Lead::elected(const Client& client, Events& events) const {
    try {
        return acquire(client, under_.asking, events);
    } catch (const Failure& failure) {
        if (failure.fault() != Fault::retry && failure.fault() != Fault::indeterminate) throw;
        say(printable(failure.detail()) + "; it stands again");
    }
    return std::nullopt;
}

bool Lead::stands_again(const Ending& ending) const {
    if (ending.asked_by != 0) return false;  // whoever ended it meant all of it
    return ending.lost || restart_;
}

void Lead::pause(Events& events) const {
    const TimePoint end = BootClock::now() + stand_back;
    events.alarm_at(end);
    while (BootClock::now() < end) {
        const Events::Event event = events.next();
        if (event.kind != Events::Kind::signal) continue;
        if (event.signal == SIGTSTP) stop_own_group(SIGTSTP);
        if (event.signal == SIGINT || event.signal == SIGTERM || event.signal == SIGHUP ||
            event.signal == SIGQUIT)
            throw Failure(exit_code::signal_base + event.signal, "cancelled",
                          "interrupted while standing for " + under_.asking.key.text());
    }
}

Report Lead::run() {
    Events events;
    // A candidate outlasts an outage of the store; what it waits for is said meanwhile.
    Client client = under_.open({.unavailable_after = forever});
    for (;; pause(events)) {
        std::optional<Lease> lease = elected(client, events);
        if (!lease) continue;
        const auto fence = lease->fence();
        say("leading " + under_.asking.key.text() + (fence ? ", fence " + std::to_string(fence->value) : ""));
        Ending ending = under_.run(*lease, events);
        under_.end(client, *lease, ending);
        if (!stands_again(ending)) {
            (void)client.close();  // what it could say is said already
            return under_.report(ending, fence);
        }
        say(ending.lost ? "no longer leading " + under_.asking.key.text() + "; it stands again"
                        : "the command ended; it stands again, and starts it when it leads");
    }
}

int Lead::perform(const Verb& verb, const Call& call) {
    Syntax syntax(verb);
    under_.declare(syntax);
    under_.asking.declare_after(syntax);
    syntax.flag("--restart", restart_, "When the command ends by itself, stand again in place of ending too");
    return under_.perform(verb, syntax, call, [this] { return run(); });
}

}  // namespace

const Verb lead_verb = {
    "lead", "lead [OPTIONS] KEY -- COMMAND [ARGUMENTS...]",
    "Run a command while leader: wait to be elected, end it when the leadership is lost, stand again.\n"
    "Ends with the command's own status when that ends by itself.",
    "  dlock lead scheduler -- ./scheduler\n"
    "      on each host; one runs it, and another one soon after that host dies\n"
    "  dlock lead --lease 10s --restart scheduler -- ./scheduler\n"
    "  dlock show scheduler; dlock resign scheduler\n",
    [](const Verb& verb, Call& call) { return Lead().perform(verb, call); }};

}  // namespace dlock::cli
