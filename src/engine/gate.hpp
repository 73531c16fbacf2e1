// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "store/blocked_caller.hpp"

namespace dlock::engine {

/// Where a blocking caller waits for its one answer, and meanwhile reads for the store where that lets it.
template <class T>
class Gate {
public:
    explicit Gate(TimePoint give_up = TimePoint::max())
        : caller_(std::make_shared<store::BlockedCaller>(give_up)) {}

    /// Once. The waiter may destroy the gate as soon as the answer can be seen.
    void put(T value) {
        value_.emplace(std::move(value));
        caller_->answer();
    }
    /// Runs `start()`, which begins what ends in put(), and waits. Nothing when it gave up; put() may still
    /// come then.
    template <class Start>
    std::optional<T> ask(Start start) {
        const Leaving leaving{*caller_};
        {
            const store::BlockedCaller::Scope scope(&caller_);
            start();
        }
        if (!caller_->wait()) return std::nullopt;
        return std::move(value_);
    }

private:
    struct Leaving {
        store::BlockedCaller& caller;
        ~Leaving() { caller.leave(); }
    };

    const std::shared_ptr<store::BlockedCaller> caller_;
    std::optional<T> value_;
};

}  // namespace dlock::engine
