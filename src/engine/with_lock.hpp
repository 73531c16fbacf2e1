// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/engine.hpp"

namespace dlock::engine {

template <class Decide>
void Engine::with_lock(Decide decide) {
    Effects effects;
    {
        const std::lock_guard lock(mutex_);
        decide(now(), effects);
        arm();
    }
    effects.run();
}

template <class Decide>
void Engine::with_lock_at(TimePoint at, Decide decide) {
    Effects effects;
    {
        const std::lock_guard lock(mutex_);
        decide(at, effects);
        arm();
    }
    effects.run();
}

}  // namespace dlock::engine
