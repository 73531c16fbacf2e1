// SPDX-License-Identifier: Apache-2.0
#include "dlock/lease.hpp"

#include <utility>

#include "dlock/once.hpp"
#include "engine/engine.hpp"
#include "engine/gate.hpp"

namespace dlock {

Lease::Lease(std::shared_ptr<engine::Engine> engine, std::shared_ptr<engine::LeaseState> state) noexcept
    : engine_(std::move(engine)), state_(std::move(state)) {}

Lease::Lease(Lease&& other) noexcept
    : engine_(std::move(other.engine_)), state_(std::move(other.state_)), parted_(other.parted_.load()) {}

Lease& Lease::operator=(Lease&& other) noexcept {
    if (this == &other) return *this;
    if (state_ && !parted_) engine_->drop(state_);
    state_ = std::move(other.state_);
    engine_ = std::move(other.engine_);
    parted_ = other.parted_.load();
    return *this;
}

Lease::~Lease() {
    if (state_ && !parted_) engine_->drop(state_);
}

bool Lease::held() const noexcept { return state_ && !parted_ && state_->held(); }

bool Lease::valid_for(std::chrono::milliseconds needed) const noexcept {
    const TimePoint until = usable_until();
    return until != TimePoint::min() && engine_->now() + needed < until;
}

TimePoint Lease::usable_until() const noexcept {
    return state_ && !parted_ ? state_->usable_until() : TimePoint::min();
}

std::optional<Fence> Lease::fence() const noexcept { return state_->fence(); }

std::stop_token Lease::lost() const noexcept { return state_->lost_source.get_token(); }

std::string Lease::lost_reason() const { return engine_->lost_reason(*state_); }

bool Lease::at_limit() const { return engine_->at_limit(*state_); }

Result<void> Lease::renew() { return engine_->renew_now(state_); }

Result<Lease> Lease::join() const {
    if (parted_ || !engine_->join(*state_)) return Error(errc::lost, "the lease is over");
    return Lease(engine_, state_);
}

void Lease::progress() { engine_->progressed(state_); }

Result<void> Lease::release() {
    engine::Gate<Result<void>> gate;
    auto released = *gate.ask([&] {
        start_release([&gate](Result<void> result) { gate.put(std::move(result)); }, Deliver::direct);
    });
    if (released) parted_ = true;  // nothing is left to be dropped
    return released;
}

Result<void> Lease::finish(std::string result, std::chrono::milliseconds keep) {
    if (result.size() > most_result)
        return Error(errc::invalid_argument, "result: " + std::to_string(result.size()) +
                                                 " bytes is more than the limit of " +
                                                 std::to_string(most_result) + "; keep it elsewhere");
    if (auto ok = OnceOptions{.keep = keep}.validate(); !ok) return ok;
    if (parted_) return Error(errc::lost, "it is released already; the result is not kept");
    if (auto ok = engine_->leave(*state_, std::move(result), keep); !ok) return ok;
    return release();
}

LeaseId Lease::detach() {
    engine_->detach(*state_);
    return state_->id();
}

LeaseId Lease::id() const { return state_->id(); }

const Key& Lease::key() const noexcept { return state_->subject->key; }

void Lease::start_release(std::function<void(Result<void>)> done, Deliver deliver) {
    engine_->start_release(state_, parted_, std::move(done), deliver);
}

}  // namespace dlock
