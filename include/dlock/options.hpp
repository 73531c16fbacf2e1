// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>

#include "dlock/result.hpp"

namespace dlock {

/// "Wait as long as it takes", for `AcquireOptions::wait`.
inline constexpr std::chrono::milliseconds forever = std::chrono::milliseconds::max();

/// The longest lease and the longest limited wait: 365 days. More is a mistake in a unit.
inline constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);

/// Who extends the lease.
enum class Renewing {
    automatic,  ///< the client, every third of the lease, until release or loss
    manual,     ///< nobody: the lock ends one lease after the grant unless `Lease::renew()` is called
};

/// An acquisition inside another one of the same transaction.
enum class Nested {
    refuse,  ///< `would_deadlock` at once, since it would wait for itself
    join,    ///< a further Lease of the same grant: same fence, same limits; the last one frees
};

/// One acquisition. A plain struct: name only the fields you change.
struct AcquireOptions {
    /// How long the lock outlives a crash of its holder. Short: the next one waits less after a crash, but a
    /// pause or an outage of the store loses the lock sooner. At least the store's minimum (100 ms), else
    /// `invalid_argument`; it is not a limit for the work, which renewals carry on.
    std::chrono::milliseconds lease = std::chrono::seconds(30);

    /// How long to stand in line. 0: fail at once with `contended`. `forever`: no limit.
    /// Not set: `acquire()` waits for ever, `try_acquire()` not at all.
    /// With the store unreachable a wait ends early, after `ClientOptions::unavailable_after`.
    std::optional<std::chrono::milliseconds> wait = std::nullopt;

    Renewing renewing = Renewing::automatic;

    /// The longest time the lock is held, whatever the work does: renewals get shorter so that the lock is
    /// free in the store at that moment, and the lease reads as lost a margin before. `forever`: no limit.
    std::chrono::milliseconds max_hold = forever;

    /// The same for each time that `Lease::progress()` was not called for so long: for work that can hang.
    std::chrono::milliseconds progress_within = forever;

    /// For so long after the release nobody gets the lock: a cool-down. Waiters may notice its end up to 2 s
    /// late.
    std::chrono::milliseconds hold_off = std::chrono::milliseconds(0);

    /// The lock is kept from others for so long from the grant on, even when it is released before: for work
    /// that must not be repeated sooner. As `hold_off` otherwise; the longer of both counts.
    std::chrono::milliseconds at_least = std::chrono::milliseconds(0);

    /// What an acquisition inside another one of the same `Context::txid`, key and client means.
    Nested nested = Nested::refuse;

    /// `invalid_argument` naming the field. Called by every verb; the store's own minimum is checked there
    /// too.
    [[nodiscard]] Result<void> validate() const;
};
static_assert(std::is_trivially_destructible_v<AcquireOptions>);  // safe inside a co_await on GCC 12

/// One client.
struct ClientOptions {
    /// How long one call to the store may go without an answer before it counts as lost and is settled on
    /// another connection. Also bounds connecting. 50 ms to 60 s.
    std::chrono::milliseconds call_timeout = std::chrono::seconds(1);

    /// How long the store may stay unreachable before a waiting acquire fails with `unavailable`.
    /// A wait of 0 fails at the first failure. `forever`: keep trying until the wait itself ends.
    std::chrono::milliseconds unavailable_after = std::chrono::seconds(5);

    /// How long `close()` and the destructor may take to get releases confirmed.
    std::chrono::milliseconds close_within = std::chrono::seconds(2);

    /// `invalid_argument` naming the field.
    [[nodiscard]] Result<void> validate() const;
};
static_assert(std::is_trivially_destructible_v<ClientOptions>);

/// Who a client is; stored with each grant and shown by `dlock list` and `show`.
/// Host, pid and a random instance id are added by the library. UTF-8, at most 256 bytes.
struct Identity {
    std::string service;

    Identity() = default;
    explicit Identity(std::string service_name) : service(std::move(service_name)) {}
};

/// What one acquisition is for; stored in the same write as the grant. Each text is UTF-8;
/// ids at most 256 bytes, the note at most 1024, else `invalid_argument`.
struct Context {
    std::string biz_id;    ///< the business object: "order 4711"
    std::string txid;      ///< transaction or trace id
    std::string note;      ///< for people: "deploy of 2.14 by ann"
    std::stop_token stop;  ///< ends the wait with `cancelled`; it does not end a lease

    Context() = default;
    explicit Context(std::stop_token token) : stop(std::move(token)) {}

    [[nodiscard]] Result<void> validate() const;
};

}  // namespace dlock
