// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "store/loop.hpp"

namespace dlock::engine {

/// A Loop on a thread of its own: Boost.Asio underneath, timers by timerfd on CLOCK_BOOTTIME.
class AsioLoop : public store::Loop {
public:
    AsioLoop();
    ~AsioLoop() override;
    AsioLoop(const AsioLoop&) = delete;
    AsioLoop& operator=(const AsioLoop&) = delete;

    /// Ends the thread; tasks still queued are dropped. Called from the loop itself, the thread ends by
    /// itself after the present task, and the loop must live until then (`finished_by_itself`).
    void stop() noexcept;

    [[nodiscard]] TimePoint now() const noexcept override { return BootClock::now(); }
    void post(Task task) override;
    [[nodiscard]] bool here() const noexcept override;
    [[nodiscard]] std::unique_ptr<Timer> timer(Task task) override;
    [[nodiscard]] std::unique_ptr<FdWatch> watch(int fd, Interest interest, Task ready) override;

private:
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace dlock::engine
