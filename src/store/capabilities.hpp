// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace dlock::store {

/// For how long fences of a key rise.
enum class FenceScope { none, until_data_loss, always };

/// Whose clock decides that a lease has ended.
enum class Clock {
    server,     ///< the store's own
    boot,       ///< this host's boot-time clock, shared by all clients
    unchanged,  ///< "unchanged for one lease on the waiter's monotonic clock"
    wall,       ///< wall clocks of several machines are compared; the declared skew is inside the margin
};

/// What a store with its layout can do. Fixed when the store is opened.
struct Capabilities {
    std::chrono::milliseconds minimum_lease{100};
    bool modes = true;   ///< readers and permits; without: exclusive locks only
    bool leaves = true;  ///< a release can leave a hold-off or a result
    bool lines = true;   ///< keeps a line of tickets; without: contended instead of queued
    FenceScope fence_scope = FenceScope::always;
    Clock clock = Clock::server;
    std::chrono::milliseconds skew{0};  ///< declared skew, for Clock::wall
    bool notify = true;                 ///< pushes changes; without: waiters look by themselves
    bool detachable = true;             ///< a grant can be renewed and released from another process
    bool secret_at_rest = true;  ///< what is stored does not by itself let a reader release through dlock
};

}  // namespace dlock::store
