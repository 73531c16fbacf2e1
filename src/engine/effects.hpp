// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

namespace dlock::engine {

/// What is to be done once the engine's lock is given back: calls to the store, completions, deliveries.
/// Make one, lock, decide, unlock, run.
class Effects {
public:
    template <class F>
    void add(F&& effect) {
        effects_.emplace_back(std::forward<F>(effect));
    }
    void run() {
        for (auto& effect : effects_) effect();
    }

private:
    std::vector<std::function<void()>> effects_;
};

}  // namespace dlock::engine
