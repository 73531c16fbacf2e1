// SPDX-License-Identifier: Apache-2.0
#pragma once

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

    LeaseMachine(milliseconds lease, milliseconds skew, Renewing renewing, TimePoint counted_from,
                 TimePoint now) noexcept;

    /// The time has come, or nearly: a renewal may go up to `renewal_jitter` early, to share a call with
    /// others.
    Action timer(TimePoint now) noexcept;
    [[nodiscard]] bool may_renew(TimePoint now) const noexcept;

    /// A renewal left for the store at `now`; give `now` back with its answer.
    void sent(TimePoint now) noexcept;
    Action answer(Answer answer, TimePoint sent, TimePoint now) noexcept;

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
    void renewed(TimePoint sent) noexcept;

    milliseconds lease_;
    milliseconds skew_;
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
