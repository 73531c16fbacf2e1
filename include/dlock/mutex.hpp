// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "dlock/lease.hpp"
#include "dlock/options.hpp"

namespace dlock {

namespace engine {
class Engine;
}

/// The exclusive lock of one key. Holds no state of its own: copy it, share it between threads, make it anew
/// each time. It has no `lock()`/`unlock()` on purpose: `std::scoped_lock` would throw the Lease away, and
/// with it the lock; use StdMutex for that.
class Mutex {
public:
    Mutex(std::shared_ptr<engine::Engine> engine, Key key) noexcept;

    /// Waits in line for as long as it takes unless `options.wait` says otherwise. Throws LockError.
    [[nodiscard]] Lease acquire(AcquireOptions options = {}, const Context& context = {});

    /// Does not wait unless `options.wait` is set. `contended` (wait 0), `timed_out`, `cancelled`,
    /// `unavailable`, `unknown_outcome` (within min(lease/2, 1 s) after the wait), ...: without a value
    /// nothing is held.
    Result<Lease> try_acquire(AcquireOptions options = {}, const Context& context = {});

    /// The same without blocking: `done` is called exactly once, on the delivery thread; with `direct` it may
    /// run on the engine's thread or inside this call, and must be short and not block (`dlock/asio.hpp`
    /// posts from it).
    void start_acquire(AcquireOptions options, Context context, std::function<void(Result<Lease>)> done,
                       Lease::Deliver deliver = Lease::Deliver::delivery_thread);

    [[nodiscard]] const Key& key() const noexcept { return key_; }

private:
    std::shared_ptr<engine::Engine> engine_;
    Key key_;
};

/// A Mutex as std::scoped_lock and std::unique_lock want it (BasicLockable, Lockable). `lock()` throws
/// LockError. What it cannot do: tell you that the lock was lost, other than through `held()`. Several
/// threads may lock one StdMutex; each process needs its own.
class StdMutex {
public:
    explicit StdMutex(Mutex mutex, AcquireOptions options = {}) noexcept
        : mutex_(std::move(mutex)), options_(options) {}

    void lock();
    bool try_lock();
    void unlock() noexcept;  ///< waits for the store's answer, at most the call time-out

    /// For the thread that locked it.
    [[nodiscard]] bool held() const noexcept { return lease_ && lease_->held(); }
    [[nodiscard]] std::optional<Fence> fence() const noexcept;

private:
    Mutex mutex_;
    AcquireOptions options_;
    std::optional<Lease> lease_;
};

}  // namespace dlock
