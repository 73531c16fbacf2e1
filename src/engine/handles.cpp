// SPDX-License-Identifier: Apache-2.0
/// Leases that share a grant, and what a grant turns into.
#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "engine/blocking.hpp"
#include "engine/fork.hpp"
#include "engine/lease_state.hpp"
#include "engine/with_lock.hpp"

namespace dlock::engine {

bool Engine::join(LeaseState& lease) {
    if (inert() || !lease.held()) return false;
    const std::lock_guard lock(mutex_);
    if (lease.phase != LeaseState::Phase::held) return false;
    ++lease.handles;
    return true;
}

namespace {

/// The engines of this process. A forked child begins with none, and leaves the parent's, whose lock may be
/// taken there for ever, as they are.
struct Engines {
    const unsigned generation = fork_generation();
    std::mutex mutex;
    std::vector<std::weak_ptr<Engine>> all;
};

Engines& engines() {
    static std::atomic<Engines*> current{nullptr};
    Engines* known = current.load();
    if (known != nullptr && known->generation == fork_generation()) return *known;
    auto fresh = std::make_unique<Engines>();
    if (!current.compare_exchange_strong(known, fresh.get())) return *known;
    return *fresh.release();
}

}  // namespace

void Engine::enlist(const std::shared_ptr<Engine>& engine) {
    Engines& known = engines();
    const std::lock_guard lock(known.mutex);
    std::erase_if(known.all, [](const auto& one) { return one.expired(); });
    known.all.push_back(engine);
}

bool Engine::held_in_process(const Key& key) {
    std::vector<std::shared_ptr<Engine>> all;
    {
        Engines& known = engines();
        const std::lock_guard lock(known.mutex);
        for (const auto& one : known.all)
            if (auto engine = one.lock()) all.push_back(std::move(engine));
    }
    return std::any_of(all.begin(), all.end(), [&](const auto& engine) { return engine->holds(key); });
}

bool Engine::holds(const Key& key) {
    if (inert()) return false;
    bool found = false;
    with_lock([&](TimePoint, Effects&) {
        schedule_.all([&](Timed& item) {
            auto* lease = dynamic_cast<LeaseState*>(&item);
            found = found || (lease != nullptr && lease->subject->key == key && lease->held());
        });
    });
    return found;
}

/// By an acquire in the name of the grant: no other call can do it in one step.
Result<void> Engine::convert(const LeasePtr& lease, core::Mode mode) {
    if (!lease->held()) return Error(errc::lost, "the lease is over");
    store::AcquireRequest request;
    request.subject = lease->subject;
    request.attempt = lease->grant;
    request.mode = mode;
    request.lease = std::chrono::milliseconds(0);
    request.converts = lease->fence();
    if (!request.converts) return Error(errc::unsupported, "this store gives no fences, which this needs");
    const auto limit = options_.call_timeout;
    auto answer = blocking<store::AcquireAnswer>(limit, errc::unknown_outcome, [&](auto done) {
        store_->acquire(request, {now() + limit, {}},
                        [done](store::AcquireAnswer got) { done(std::move(got)); });
    });
    if (!answer) return std::move(answer).error();
    if (const auto* error = std::get_if<Error>(&*answer)) return *error;
    const auto* granted = std::get_if<store::Granted>(&*answer);
    if (granted == nullptr)
        return Error(errc::contended, "others read it too; it stays shared, release it and ask anew");
    if (granted->fence) lease->set_fence(granted->fence);
    with_lock([&](TimePoint, Effects&) { lease->mode = mode; });
    return {};
}

Result<void> Engine::leave(LeaseState& lease, std::string result, std::chrono::milliseconds keep) {
    if (auto ok = usable(); !ok) return ok;
    if (auto ok = check_leaves(); !ok) return ok;
    const Error over(errc::lost, "the lease was over before the work ended; its result is not kept");
    if (!lease.held()) return over;
    const std::lock_guard lock(mutex_);
    if (lease.phase != LeaseState::Phase::held) return over;
    lease.result = std::move(result);
    lease.keep = keep;
    return {};
}

}  // namespace dlock::engine

namespace dlock {

void assert_held(const Key& key) {
    if (!engine::Engine::held_in_process(key))
        throw LockError(Error(errc::not_owner, key.text() + ": this process does not hold it just now"));
}

}  // namespace dlock
