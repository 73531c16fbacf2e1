// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace dlock {

/// The clock of every deadline in dlock: CLOCK_BOOTTIME. It never steps, and unlike
/// `std::chrono::steady_clock` on Linux it goes on counting while the machine sleeps, so a laptop or a
/// suspended virtual machine wakes up knowing that its leases ended. Comparable within one host only.
struct BootClock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<BootClock>;
    static constexpr bool is_steady = true;

    /// Any thread; about 30 ns; async-signal-safe.
    static time_point now() noexcept;
};

using TimePoint = BootClock::time_point;

}  // namespace dlock
