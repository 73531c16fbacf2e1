// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "dlock/time.hpp"

namespace dlock::store {

/// What a store may use of the engine's thread. Abstract, so that a store module links no event library and
/// the simulation can put its own time behind it. Tasks run on the loop's thread, one after another, and must
/// not block.
class Loop {
public:
    using Task = std::function<void()>;

    /// Fires once for each set(). Destroying it cancels. Any thread; a task that has begun may still be
    /// running when set(), cancel() or the destructor return on another thread.
    class Timer {
    public:
        virtual ~Timer() = default;
        virtual void set(
            TimePoint when) = 0;  ///< moves it when already set; a moment in the past fires at once
        virtual void cancel() = 0;
    };

    enum class Interest { none, read, write, read_write };

    /// Readiness of a descriptor, level-triggered, one task for both directions. Loop thread only. Errors and
    /// hang-up count as readable. Destroy it before the descriptor is closed; it does not own it. It may be
    /// destroyed inside its own task, and another one for the same descriptor made there.
    class FdWatch {
    public:
        virtual ~FdWatch() = default;
        virtual void want(Interest interest) = 0;
    };

    virtual ~Loop() = default;

    /// CLOCK_BOOTTIME, or the simulation's time.
    [[nodiscard]] virtual TimePoint now() const noexcept = 0;
    /// Runs the task on the loop's thread, later. Any thread.
    virtual void post(Task task) = 0;
    /// Whether the caller is on the loop's thread, where nothing may block.
    [[nodiscard]] virtual bool here() const noexcept = 0;
    [[nodiscard]] virtual std::unique_ptr<Timer> timer(Task task) = 0;
    [[nodiscard]] virtual std::unique_ptr<FdWatch> watch(int fd, Interest interest, Task ready) = 0;
};

}  // namespace dlock::store
