// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <optional>

#include "dlock/time.hpp"

namespace dlock::cli {

/// What can happen while `dlock` waits for a lock or for a command: a signal, a moment, a word of another
/// thread. Made before any other thread, since those inherit that the signals are blocked.
class Events {
public:
    enum class Kind { notified, alarm, signal };
    struct Event {
        Kind kind;
        int signal = 0;
    };

    Events();
    ~Events();
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;

    /// By CLOCK_BOOTTIME, so a machine that slept sees it at once. A later call moves it.
    void alarm_at(TimePoint when) noexcept;
    /// Any thread; async-signal-safe.
    void notify() const noexcept;
    /// Blocks. Of several, what other threads say comes first, then the alarm, then signals in the order of
    /// arrival.
    Event next();

    /// The signal mask as it was, for the command.
    [[nodiscard]] const sigset_t& original_mask() const noexcept { return original_; }

private:
    sigset_t original_{};
    int signals_ = -1;
    int timer_ = -1;
    int notice_ = -1;
};

/// Stops this whole process group as the terminal would, and comes back when it is continued.
/// False when nothing stopped it, since nobody is there who could continue it.
enum class Stopped { yes, no };
Stopped stop_own_group(int signal) noexcept;

}  // namespace dlock::cli
