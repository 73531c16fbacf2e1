// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "store/store.hpp"
#include "store/url.hpp"

namespace dlock::store {

class MemorySpace;

/// The store's time. The simulation gives its own, so that it can step and stop it.
struct MemoryClock {
    std::function<TimePoint()> now;          ///< unset: that of the client's loop
    std::function<std::uint64_t()> wall_us;  ///< unset: CLOCK_REALTIME
};

/// `memory:name`: locks between the clients of one process. Every call finishes before it returns.
Result<std::unique_ptr<Store>> open_memory(const Url& url, const StoreEnv& env);

/// The same over a given space and clock.
std::unique_ptr<Store> make_memory_store(std::shared_ptr<MemorySpace> space, const StoreEnv& env,
                                         MemoryClock clock = {});

}  // namespace dlock::store
