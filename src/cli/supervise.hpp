// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/command.hpp"
#include "cli/events.hpp"
#include "dlock/lease.hpp"

namespace dlock::cli {

struct Ending {
    Command::Status status;
    bool lost = false;
    std::string reason;       ///< why it was lost
    bool over_limit = false;  ///< ended by max_hold
    int asked_by = 0;         ///< the last INT, TERM, HUP or QUIT that came while it ran
};

/// Watches over the command until it has ended: forwards signals, plays the shell for Ctrl-Z, and ends the
/// whole group when the lock is in danger: TERM at usable-until minus grace (or at once on a `lost` answer),
/// KILL after `grace` or at usable-until, whichever comes first.
Ending supervise(Command& command, const Lease& lease, std::chrono::milliseconds grace, Events& events,
                 Terminal& terminal);

}  // namespace dlock::cli
