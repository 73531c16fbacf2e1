// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "dlock/time.hpp"

/// The arithmetic of lease time. Nothing else in dlock computes validity.
namespace dlock::core {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// What is taken off a lease so that the holder stops before the store gives the lock away:
/// a twentieth of the lease within 10..500 ms, at least a thousandth of it, plus the declared clock skew.
nanoseconds margin(milliseconds lease, milliseconds skew) noexcept;

/// Until when the holder may believe that it holds. `sent` is a moment before the sending of the request
/// whose success last set the store's expiry, never the moment of its answer.
TimePoint usable_until(TimePoint sent, milliseconds lease, milliseconds skew) noexcept;

/// A renewal every third of the lease; jitter may only shorten that, by at most a twentieth.
constexpr nanoseconds renewal_period(milliseconds lease) noexcept { return nanoseconds(lease) / 3; }
constexpr nanoseconds renewal_jitter(milliseconds lease) noexcept { return renewal_period(lease) / 20; }

/// A renewal without answer is late after this, and repeated on a fresh connection each `repeat_every`.
constexpr nanoseconds late_after(milliseconds lease) noexcept { return nanoseconds(lease) / 10; }
constexpr nanoseconds repeat_every(milliseconds lease) noexcept { return nanoseconds(lease) / 20; }

/// How long an acquire without answer may take to be settled.
constexpr nanoseconds settle_within(milliseconds lease) noexcept {
    return nanoseconds(lease) / 2 < std::chrono::seconds(1) ? nanoseconds(lease) / 2
                                                            : std::chrono::seconds(1);
}

}  // namespace dlock::core
