// SPDX-License-Identifier: Apache-2.0
#include "dlock/shared_mutex.hpp"

#include <utility>

#include "engine/engine.hpp"

namespace dlock {

namespace {
using Wanted = engine::Engine::Wanted;
const Wanted writer{.mode = core::Mode::write};
const Wanted reader{.mode = core::Mode::shared};
}  // namespace

SharedMutex::SharedMutex(std::shared_ptr<engine::Engine> engine, Key key) noexcept
    : engine_(std::move(engine)), key_(std::move(key)) {}

Lease SharedMutex::acquire(AcquireOptions options, const Context& context) {
    if (!options.wait) options.wait = forever;
    return try_acquire(options, context).value();
}

Result<Lease> SharedMutex::try_acquire(AcquireOptions options, const Context& context) {
    return engine_->acquire(key_, writer, options, context);
}

void SharedMutex::start_acquire(AcquireOptions options, Context context,
                                std::function<void(Result<Lease>)> done, Lease::Deliver deliver) {
    engine_->start_acquire(key_, writer, options, context, std::move(done), deliver);
}

Lease SharedMutex::acquire_shared(AcquireOptions options, const Context& context) {
    if (!options.wait) options.wait = forever;
    return try_acquire_shared(options, context).value();
}

Result<Lease> SharedMutex::try_acquire_shared(AcquireOptions options, const Context& context) {
    return engine_->acquire(key_, reader, options, context);
}

void SharedMutex::start_acquire_shared(AcquireOptions options, Context context,
                                       std::function<void(Result<Lease>)> done, Lease::Deliver deliver) {
    engine_->start_acquire(key_, reader, options, context, std::move(done), deliver);
}

Result<void> SharedMutex::downgrade(Lease& lease) {
    return lease.engine_->convert(lease.state_, core::Mode::shared);
}

Result<void> SharedMutex::try_upgrade(Lease& lease) {
    return lease.engine_->convert(lease.state_, core::Mode::write);
}

}  // namespace dlock
