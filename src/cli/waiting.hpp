// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "cli/events.hpp"
#include "cli/store_choice.hpp"
#include "cli/syntax.hpp"
#include "dlock/client.hpp"

namespace dlock::cli {

/// How a lock is asked for: what `run` and `acquire` have in common.
class Asking {
public:
    void declare(Syntax& syntax);
    /// Reads what declare() took. Failure (64) naming the option.
    void check();

    Key key{std::string{}};
    AcquireOptions options;
    Context context;
    int not_had_exit = 75;
    Common common;

private:
    std::string key_text_;
    bool nonblock_ = false;
    std::optional<std::string> seconds_, wait_, lease_, note_, biz_, txid_, not_had_text_;
};

/// Takes the lock. While it waits it says on stderr who holds it, after 1 s and then at least every 10 s.
/// INT, TERM, HUP and QUIT leave the line and end as Failure 128+n; not had is a Failure that knows the
/// holder.
Lease acquire(const Client& client, const Asking& asking, Events& events);

}  // namespace dlock::cli
