// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/engine.hpp"
#include "engine/gate.hpp"

namespace dlock::engine {

/// `start(done)` makes one call to the store; its answer comes back here or the time ends. `silent` is what
/// no answer means: `unavailable` of a call that only reads, `unknown_outcome` of one that may have changed
/// something.
template <class Answer, class Start>
Result<Answer> Engine::blocking(std::chrono::milliseconds limit, errc silent, Start start) {
    if (auto ok = usable(); !ok) return std::move(ok).error();
    {
        const std::lock_guard lock(mutex_);
        if (life_ != Life::open) return Error(errc::cancelled, "the client is closed");
    }
    auto gate = std::make_shared<Gate<Result<Answer>>>(now() + limit);
    auto answer = gate->ask([&] { start([gate](Result<Answer> got) { gate->put(std::move(got)); }); });
    if (answer) return *std::move(answer);
    return Error(silent, "the store did not answer within " + std::to_string(limit.count()) + " ms");
}

}  // namespace dlock::engine
