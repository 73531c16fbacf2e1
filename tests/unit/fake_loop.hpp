// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "store/loop.hpp"

namespace dlock::store {

/// A loop whose time and turns the test gives. Without timers and descriptors: the stores tested on it have
/// none.
class FakeLoop final : public Loop {
public:
    [[nodiscard]] TimePoint now() const noexcept override { return time; }
    void post(Task task) override {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
    }
    [[nodiscard]] bool here() const noexcept override { return true; }
    [[nodiscard]] std::unique_ptr<Timer> timer(Task /*task*/) override { return nullptr; }
    [[nodiscard]] std::unique_ptr<FdWatch> watch(int /*fd*/, Interest /*interest*/, Task /*ready*/) override {
        return nullptr;
    }

    /// Runs what was posted; how many tasks that were.
    std::size_t run() {
        std::vector<Task> tasks;
        {
            const std::lock_guard lock(mutex_);
            tasks.swap(tasks_);
        }
        for (const Task& task : tasks) task();
        return tasks.size();
    }

    TimePoint time{std::chrono::hours(1)};

private:
    std::mutex mutex_;
    std::vector<Task> tasks_;
};

}  // namespace dlock::store
