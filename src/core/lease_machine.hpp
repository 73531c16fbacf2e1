// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/validity.hpp"

namespace dlock::core {

/// What a lease does from its grant to its end. No I/O, clock, thread or lock: the engine feeds events with
/// the time and performs the one action that comes back.
class LeaseMachine {
public:
    enum class Renewing { automatic, manual };
    enum class Answer { renewed, held, lost, unknown };
    enum class Action {
        nothing,
        renew,        ///< send a renewal; then call `sent()`
        renew_fresh,  ///< the same on a fresh connection: the last one has no answer
        tell_lost,    ///< the lease is over; `reason()` says why
    };

    /// What a lease must not reach past, whatever is renewed.
    struct Limits {
        TimePoint hold_end = TimePoint::max();               ///< grant + max_hold
        milliseconds progress_within = milliseconds::max();  ///< since the grant or the last progressed()
    };

    /// `lease` is that of the request that was granted; renewals ask for `renewed_lease`, which is more where
    /// a limit was nearer than a whole lease.
    LeaseMachine(milliseconds lease, milliseconds renewed_lease, milliseconds skew, Renewing renewing,
                 TimePoint counted_from, TimePoint now, Limits limits) noexcept;
    LeaseMachine(milliseconds lease, milliseconds skew, Renewing renewing, TimePoint counted_from,
                 TimePoint now) noexcept
        : LeaseMachine(lease, lease, skew, renewing, counted_from, now, {}) {}

    /// The time has come, or nearly: a renewal may go up to `renewal_jitter` early, to share a call with
    /// others.
    Action timer(TimePoint now) noexcept;
    [[nodiscard]] bool may_renew(TimePoint now) const noexcept;

    /// What a renewal sent at `now` asks for: the lease, or what is left to the nearest limit.
    [[nodiscard]] milliseconds lease_at(TimePoint now) const noexcept;
    /// A renewal left for the store at `now`; give that and what it asked for back with its answer.
    void sent(TimePoint now) noexcept;
    struct Sent {
        TimePoint at;
        milliseconds lease;
    };
    Action answer(Answer answer, Sent sent, TimePoint now) noexcept;

    /// The work goes on: the limit of `progress_within` counts from now.
    void progressed(TimePoint now) noexcept;
    /// The lease runs to a limit: no renewal can extend it.
    [[nodiscard]] bool at_limit() const noexcept;

    /// Released, detached or lost elsewhere: nothing is due any more and answers are ignored.
    void end() noexcept;

    [[nodiscard]] TimePoint usable_until() const noexcept { return usable_until_; }
    /// When to call `timer()` next; TimePoint::max() after the end.
    [[nodiscard]] TimePoint due() const noexcept;
    [[nodiscard]] bool over() const noexcept { return over_; }
    /// True once for each renewal that has gone late.
    [[nodiscard]] bool take_late() noexcept;
    [[nodiscard]] const char* reason() const noexcept { return reason_; }
    [[nodiscard]] milliseconds lease() const noexcept { return lease_; }

private:
    Action lose(const char* reason) noexcept;
    void renewed(Sent sent) noexcept;
    [[nodiscard]] TimePoint limit() const noexcept { return std::min(limits_.hold_end, stall_end_); }
    [[nodiscard]] const char* end_reason() const noexcept;

    milliseconds lease_;
    milliseconds current_;  ///< of the newest success; sets the pace
    milliseconds skew_;
    Limits limits_;
    TimePoint stall_end_;  ///< when progress_within is over
    TimePoint covered_;    ///< until when the store keeps the grant, at least
    TimePoint usable_until_;
    TimePoint next_renewal_;
    TimePoint newest_success_;                   ///< send time of the newest renewal known to have worked
    std::optional<TimePoint> unanswered_since_;  ///< send time of the oldest renewal still without answer
    const char* reason_ = "";
    Renewing renewing_;
    bool over_ = false;
    bool late_ = false;
    bool late_told_ = false;
};

}  // namespace dlock::core
