// SPDX-License-Identifier: Apache-2.0
#include "dlock/mutex.hpp"

#include <utility>

#include "engine/engine.hpp"

namespace dlock {

Mutex::Mutex(std::shared_ptr<engine::Engine> engine, Key key) noexcept
    : engine_(std::move(engine)), key_(std::move(key)) {}

Lease Mutex::acquire(AcquireOptions options, const Context& context) {
    if (!options.wait) options.wait = forever;
    return try_acquire(options, context).value();
}

Result<Lease> Mutex::try_acquire(AcquireOptions options, const Context& context) {
    return engine_->acquire(key_, {}, options, context);
}

void Mutex::start_acquire(AcquireOptions options, Context context, std::function<void(Result<Lease>)> done,
                          Lease::Deliver deliver) {
    engine_->start_acquire(key_, {}, options, context, std::move(done), deliver);
}

void StdMutex::lock() { lease_.emplace(mutex_.acquire(options_)); }

bool StdMutex::try_lock() {
    auto options = options_;
    options.wait = std::chrono::milliseconds(0);
    auto got = mutex_.try_acquire(options);
    if (got) {
        lease_.emplace(std::move(*got));
        return true;
    }
    if (got.error() == errc::contended) return false;
    throw LockError(got.error());
}

void StdMutex::unlock() noexcept {
    // Taken out first: once released, the next thread may fill `lease_`.
    auto lease = std::exchange(lease_, std::nullopt);
    if (lease) static_cast<void>(lease->release());
}

std::optional<Fence> StdMutex::fence() const noexcept { return lease_ ? lease_->fence() : std::nullopt; }

}  // namespace dlock
