// SPDX-License-Identifier: Apache-2.0
#include "engine/fork.hpp"

#include <atomic>

#include <pthread.h>

namespace dlock::engine {

namespace {
std::atomic<unsigned> generation{0};
}  // namespace

unsigned fork_generation() noexcept {
    static const int installed =
        pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
    static_cast<void>(installed);
    return generation.load(std::memory_order_relaxed);
}

}  // namespace dlock::engine
