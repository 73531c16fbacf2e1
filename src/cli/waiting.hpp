// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/events.hpp"
#include "cli/store_choice.hpp"
#include "cli/syntax.hpp"
#include "dlock/client.hpp"

namespace dlock::cli {

/// How a lock is asked for: what the verbs that take one have in common.
class Asking {
public:
    /// As what a key is held.
    enum class As { mutex, writer, reader, permit };

    void declare(Syntax& syntax);
    void declare_mode(Syntax& syntax);   ///< -s, -x, --permits
    void declare_after(Syntax& syntax);  ///< --hold-off, --at-least
    /// Reads what declare() took. Failure (64) naming the option.
    void check();

    [[nodiscard]] bool wait_given() const { return nonblock_ || seconds_ || wait_; }

    Key key{std::string{}};
    As as = As::mutex;
    std::uint32_t permits = Semaphore::as_configured;
    AcquireOptions options;
    Context context;
    int not_had_exit = 75;
    Common common;

private:
    void check_mode();

    std::string key_text_;
    bool nonblock_ = false;
    bool shared_ = false;
    bool exclusive_ = false;
    std::optional<std::string> seconds_, wait_, lease_, note_, biz_, txid_, not_had_text_;
    std::optional<std::string> permits_text_, hold_off_, at_least_;
};

/// Takes the lock. While it waits it says on stderr who holds it, after 1 s and then at least every 10 s.
/// INT, TERM, HUP and QUIT leave the line and end as Failure 128+n; not had is a Failure that knows the
/// holder.
Lease acquire(const Client& client, const Asking& asking, Events& events);

/// The same for work that is done once: what it came to elsewhere is as good as the lock.
OnceStart acquire_or_result(const Client& client, const Asking& asking, Events& events);
/// Whether there is a result just now.
std::optional<Outcome> look_for_result(const Client& client, const Asking& asking);

}  // namespace dlock::cli
