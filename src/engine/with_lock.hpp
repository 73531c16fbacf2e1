// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/engine.hpp"

namespace dlock::engine {

template <class Decide>
void Engine::with_lock(Decide decide) {
    Effects effects;
    {
        const std::lock_guard lock(mutex_);
        const TimePoint at = now();
        decide(at, effects);
        arm();
    }
    effects.run();
}

}  // namespace dlock::engine
