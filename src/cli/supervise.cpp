// SPDX-License-Identifier: Apache-2.0
#include "cli/supervise.hpp"

#include <algorithm>

#include <unistd.h>

#include "cli/output.hpp"

namespace dlock::cli {
namespace {

using std::chrono::milliseconds;

bool ends(int signal) noexcept {
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

class Supervisor {
public:
    Supervisor(Command& command, const Lease& lease, milliseconds grace, Events& events, Terminal& terminal)
        : command_(command),
          lease_(lease),
          grace_(grace),
          events_(events),
          terminal_(terminal),
          usable_until_(lease.usable_until()) {}

    Ending run() {
        const std::stop_callback told(lease_.lost(), [this] { events_.notify(); });
        for (;;) {
            if (command_.ended()) return finish();
            check();
            const Events::Event event = events_.next();
            if (event.kind != Events::Kind::signal) continue;
            if (ends(event.signal)) asked_by_ = event.signal;  // also when the command has just ended
            if (!command_.ended()) on_signal(event.signal);
        }
    }

private:
    enum class Phase { running, terminated, killed };

    /// The deadlines. Before everything else, so that after a stop or a sleep of the machine nothing of the
    /// command is continued that must not go on.
    void check() {
        const TimePoint now = BootClock::now();
        // After a loss usable_until() says nothing any more; the last value still bounds the grace.
        usable_until_ = std::max(usable_until_, lease_.usable_until());
        if (phase_ == Phase::running) {
            if (!lease_.held())
                end_command(now, lease_.lost_reason());
            else if (now >= usable_until_ - grace_)
                end_command(now, lease_.at_limit() ? "max_hold is over" : "no renewal was answered in time");
        }
        if (phase_ == Phase::terminated && now >= kill_at_) kill();
        if (phase_ != Phase::killed)
            events_.alarm_at(phase_ == Phase::running ? usable_until_ - grace_ : kill_at_);
    }

    void end_command(TimePoint now, std::string reason) {
        reason_ = reason.empty() ? "the lease ended" : std::move(reason);
        over_limit_ = lease_.at_limit();
        kill_at_ = std::min(now + grace_, usable_until_);
        phase_ = Phase::terminated;
        if (now >= kill_at_) {
            kill();
        } else {
            command_.signal_group(SIGTERM);
            command_.signal_group(SIGCONT);  // a stopped process could not obey
        }
        say("the lock is lost: " + reason_ + "; ending the command");
    }

    void kill() {
        command_.signal_group(SIGKILL);
        phase_ = Phase::killed;
    }

    Ending finish() {
        Ending ending;
        ending.asked_by = asked_by_;
        ending.lost = phase_ != Phase::running || !lease_.held();
        ending.over_limit = over_limit_;
        ending.reason = phase_ != Phase::running ? reason_ : lease_.lost_reason();
        // Before reap(), while the group's number cannot belong to somebody else.
        if (ending.lost) command_.signal_group(SIGKILL);
        const bool had_terminal = terminal_.foreground_is(command_.group());
        ending.status = command_.reap();
        if (had_terminal) {
            terminal_.give(::getpgrp());
            if (ending.status.signal != 0) terminal_.restore_modes();
        }
        return ending;
    }

    void on_signal(int signal) {
        switch (signal) {
            case SIGCHLD:
                if (const auto by = command_.stopped_by()) on_stopped(*by);
                return;
            case SIGCONT:
                check();
                resume();
                return;
            default:
                command_.signal_group(signal);
        }
    }

    /// The command stopped: by Ctrl-Z, or since it wanted the terminal from the background.
    void on_stopped(int by) {
        const bool had_terminal = terminal_.foreground_is(command_.group());
        const bool wants_terminal = by == SIGTTIN || by == SIGTTOU;
        if (wants_terminal && terminal_.foreground_is(::getpgrp())) {
            terminal_.give(command_.group());
            command_.signal_group(SIGCONT);
            return;
        }
        // Stopped by somebody's kill, not by a terminal: the lock is kept, and they will continue it.
        if (!terminal_.exists() || (by == SIGSTOP && !had_terminal)) return;
        if (had_terminal) {
            terminal_.give(::getpgrp());
            terminal_.restore_modes();
        }
        const Stopped stopped = stop_own_group(by == SIGSTOP ? SIGTSTP : by);
        check();
        if (stopped == Stopped::yes || !wants_terminal) resume();
    }

    /// Lets the command go on, with the terminal if its foreground is ours to give.
    void resume() {
        if (phase_ == Phase::killed) return;
        if (terminal_.should_hand_over()) terminal_.give(command_.group());
        command_.signal_group(SIGCONT);
    }

    Command& command_;
    const Lease& lease_;
    const milliseconds grace_;
    Events& events_;
    Terminal& terminal_;
    TimePoint usable_until_;
    Phase phase_ = Phase::running;
    TimePoint kill_at_{};
    std::string reason_;
    bool over_limit_ = false;
    int asked_by_ = 0;
};

}  // namespace

Ending supervise(Command& command, const Lease& lease, milliseconds grace, Events& events,
                 Terminal& terminal) {
    return Supervisor(command, lease, grace, events, terminal).run();
}

}  // namespace dlock::cli
