// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace dlock::engine {

/// Where a blocking caller waits for its one answer.
template <class T>
class Gate {
public:
    void put(T value) {
        // Notified under the lock: the waiter may destroy the gate as soon as it has the value.
        const std::lock_guard lock(mutex_);
        value_.emplace(std::move(value));
        ready_.notify_one();
    }
    T wait() {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [&] { return value_.has_value(); });
        return std::move(*value_);
    }
    std::optional<T> wait_for(std::chrono::milliseconds limit) {
        std::unique_lock lock(mutex_);
        if (!ready_.wait_for(lock, limit, [&] { return value_.has_value(); })) return std::nullopt;
        return std::move(*value_);
    }

private:
    std::mutex mutex_;
    std::condition_variable ready_;
    std::optional<T> value_;
};

}  // namespace dlock::engine
