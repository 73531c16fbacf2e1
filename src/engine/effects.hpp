// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <utility>
#include <vector>

namespace dlock::engine {

/// What is to be done once the engine's lock is given back: calls to the store, completions, deliveries.
/// Make one, lock, decide, unlock, run. The first few need no memory of their own.
class Effects {
public:
    template <class F>
    void add(F&& effect) {
        if (count_ < first_.size()) {
            first_[count_++] = std::forward<F>(effect);
        } else {
            rest_.emplace_back(std::forward<F>(effect));
        }
    }
    void run() {
        for (std::size_t i = 0; i < count_; ++i) first_[i]();
        for (auto& effect : rest_) effect();
    }

private:
    std::array<std::function<void()>, 3> first_;
    std::size_t count_ = 0;
    std::vector<std::function<void()>> rest_;
};

}  // namespace dlock::engine
