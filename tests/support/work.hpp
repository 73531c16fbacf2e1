// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "dlock/lease.hpp"

namespace dlock::testing {

/// What a key's holders of one process see of each other. A late reply that was taken for another call's
/// would be a grant that the store never gave: two inside, or a fence that does not rise.
class Work {
public:
    void run(const Lease& lease) {
        if (inside_.exchange(true)) ++overlaps;
        if (lease.fence()->value <= last_fence_) ++overlaps;
        last_fence_ = lease.fence()->value;
        inside_ = false;
        ++runs;
    }
    std::atomic<int> overlaps{0};
    std::atomic<int> runs{0};

private:
    std::atomic<bool> inside_{false};
    std::uint64_t last_fence_ = 0;  // guarded by the lock under test
};

}  // namespace dlock::testing
