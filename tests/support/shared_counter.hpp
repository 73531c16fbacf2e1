// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "dlock/lease_id.hpp"

namespace dlock::testing {

/// The resource that a lock protects in tests: a file mapped by several processes, which notices when two are
/// inside at once, when an increment gets lost, and when a fence does not rise.
class SharedCounter {
public:
    /// Opens the file, and makes it when it is not there.
    explicit SharedCounter(const std::string& path);
    SharedCounter(const SharedCounter&) = delete;
    SharedCounter& operator=(const SharedCounter&) = delete;
    ~SharedCounter();

    /// What the holder of the lock does: an increment that loses counts unless it runs alone.
    void work(std::optional<Fence> fence);
    /// What a holder beside others does: together they weigh at most `limit`.
    void share(std::uint64_t weight, std::uint64_t limit);

    [[nodiscard]] std::uint64_t count() const { return state_->count; }
    [[nodiscard]] std::uint64_t overlaps() const { return state_->overlaps; }
    [[nodiscard]] std::uint64_t fences_not_higher() const { return state_->fences_not_higher; }

private:
    struct State {
        std::atomic<std::uint64_t> inside, count, overlaps, last_fence, fences_not_higher;
    };
    State* state_ = nullptr;
};

}  // namespace dlock::testing
