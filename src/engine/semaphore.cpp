// SPDX-License-Identifier: Apache-2.0
#include "dlock/semaphore.hpp"

#include <utility>

#include "engine/engine.hpp"

namespace dlock {

Semaphore::Semaphore(std::shared_ptr<engine::Engine> engine, Key key, std::uint32_t permits) noexcept
    : engine_(std::move(engine)), key_(std::move(key)), permits_(permits) {}

Lease Semaphore::acquire(AcquireOptions options, const Context& context) {
    if (!options.wait) options.wait = forever;
    return try_acquire(options, context).value();
}

Result<Lease> Semaphore::try_acquire(AcquireOptions options, const Context& context) {
    return engine_->acquire(key_, {core::Mode::permit, permits_}, options, context);
}

void Semaphore::start_acquire(AcquireOptions options, Context context,
                              std::function<void(Result<Lease>)> done, Lease::Deliver deliver) {
    engine_->start_acquire(key_, {core::Mode::permit, permits_}, options, context, std::move(done), deliver);
}

}  // namespace dlock
