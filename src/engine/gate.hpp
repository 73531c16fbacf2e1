// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <optional>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dlock/time.hpp"

namespace dlock::engine {

/// Where a blocking caller waits for its one answer. A futex, not a condition variable: the waiter is woken
/// by one call, and only if it sleeps, and does not meet a lock that the waker still has. The waker touches
/// nothing but the address of the word once the value is there, so the waiter may destroy the gate at once.
template <class T>
class Gate {
public:
    void put(T value) {
        value_.emplace(std::move(value));
        if (word_.exchange(there, std::memory_order_acq_rel) == sleeping)
            futex(FUTEX_WAKE_PRIVATE, 1, nullptr);
    }
    T wait() {
        while (!came()) futex(FUTEX_WAIT_PRIVATE, sleeping, nullptr);
        return std::move(*value_);
    }
    std::optional<T> wait_for(std::chrono::milliseconds limit) {
        const auto end = BootClock::now() + limit;
        while (!came()) {
            const auto left = end - BootClock::now();
            if (left <= left.zero()) return std::nullopt;
            const auto whole = std::chrono::floor<std::chrono::seconds>(left);
            const timespec time{whole.count(), (left - whole).count()};
            futex(FUTEX_WAIT_PRIVATE, sleeping, &time);
        }
        return std::move(*value_);
    }

private:
    enum Word : std::uint32_t { empty, sleeping, there };

    /// False: the word says now that somebody sleeps.
    bool came() noexcept {
        std::uint32_t word = empty;
        word_.compare_exchange_strong(word, sleeping, std::memory_order_acq_rel);
        return word == there;
    }
    void futex(int operation, std::uint32_t value, const timespec* time) noexcept {
        syscall(SYS_futex, &word_, operation, value, time, nullptr, 0);
    }

    std::atomic<std::uint32_t> word_{empty};
    std::optional<T> value_;
};

}  // namespace dlock::engine
