// SPDX-License-Identifier: Apache-2.0
/// Renewal and loss.
#include <algorithm>
#include <utility>

#include "core/planted.hpp"
#include "engine/attempt.hpp"
#include "engine/with_lock.hpp"

namespace dlock::engine {

using core::LeaseMachine;
using core::Planted;
using core::planted;

namespace {

/// More in one pass would hold the lock too long; the timer goes off again at once for the rest.
constexpr int most_a_pass = 4096;

LeaseMachine::Answer in_core(store::Renewal renewal) noexcept {
    switch (renewal) {
        case store::Renewal::renewed:
            return LeaseMachine::Answer::renewed;
        case store::Renewal::held:
            return LeaseMachine::Answer::held;
        case store::Renewal::lost:
            return LeaseMachine::Answer::lost;
        case store::Renewal::unknown:
            break;
    }
    return LeaseMachine::Answer::unknown;
}

store::RenewItem renewal_of(const LeaseState& lease, TimePoint now) {
    return {lease.subject, lease.grant, lease.machine.lease_at(now), lease.handle};
}

}  // namespace

LeaseState::LeaseState(Engine& owner, const store::AcquireRequest& request,
                       const LeaseId::Secret& lease_secret, store::Granted granted, const LeaseMachine& rules)
    : engine(owner),
      subject(request.subject),
      secret(lease_secret),
      grant(request.attempt),
      handle(std::move(granted.handle)),
      machine(rules),
      mode(request.mode),
      usable_(rules.usable_until().time_since_epoch().count()) {
    set_fence(granted.fence);
}

std::optional<Fence> LeaseState::fence() const noexcept {
    const std::uint64_t value = fence_.load(std::memory_order_acquire);
    return value != 0 ? std::optional(Fence{value}) : std::nullopt;
}

void LeaseState::set_fence(const std::optional<Fence>& fence) noexcept {
    fence_.store(fence ? fence->value : 0, std::memory_order_release);
}

bool LeaseState::held() noexcept {
    std::int64_t until = usable_.load(std::memory_order_acquire);
    if (until == dead || engine.inert()) return false;
    const std::int64_t now = engine.now().time_since_epoch().count();
    // Whoever reads it as over makes it so: a renewal answered at the same moment cannot bring it back.
    while (until != dead && now >= until) {
        if (usable_.compare_exchange_weak(until, dead, std::memory_order_acq_rel)) return false;
    }
    return until != dead;
}

TimePoint LeaseState::usable_until() noexcept {
    return held() ? TimePoint(BootClock::duration(usable_.load(std::memory_order_acquire)))
                  : TimePoint::min();
}

bool LeaseState::extend(TimePoint until) noexcept {
    const std::int64_t to = until.time_since_epoch().count();
    std::int64_t from = usable_.load(std::memory_order_acquire);
    if (planted(Planted::renewal_revives)) usable_.store(from = to);
    while (from != dead && from < to) {
        if (usable_.compare_exchange_weak(from, to, std::memory_order_acq_rel)) return true;
    }
    return from != dead;
}

void LeaseState::on_time(Engine& owner, TimePoint now, Effects& effects) {
    const auto self = std::static_pointer_cast<LeaseState>(shared_from_this());
    switch (machine.timer(now)) {
        case LeaseMachine::Action::nothing:
            break;
        case LeaseMachine::Action::renew:
            owner.usual_.add(renewal_of(*this, now), self);
            machine.sent(now);
            break;
        case LeaseMachine::Action::renew_fresh:
            owner.fresh_.add(renewal_of(*this, now), self);
            machine.sent(now);
            if (machine.take_late())
                owner.tell_of(*this, Event::Kind::late, "no answer to a renewal yet", effects);
            break;
        case LeaseMachine::Action::tell_lost:
            owner.lose(self, machine.reason(), effects);
            break;
    }
    owner.schedule_.set(*this, machine.due());
}

void Engine::Batch::add(store::RenewItem item, const std::shared_ptr<Timed>& target) {
    shortest = std::min(shortest, item.lease);
    longest = std::max(longest, item.lease);
    items.push_back(std::move(item));
    targets.push_back({target, items.back().lease});
}

void Engine::on_timer() {
    with_lock([&](TimePoint at, Effects& effects) {
        armed_ = TimePoint::max();
        for (int i = 0; i < most_a_pass && schedule_.earliest() <= at; ++i) {
            const auto item = schedule_.first()->shared_from_this();
            schedule_.remove(*item);
            item->on_time(*this, at, effects);
        }
        if (!usual_.items.empty()) bring_along(at, effects);
        send_renewals(usual_, store::Route::usual, at, effects);
        send_renewals(fresh_, store::Route::fresh, at, effects);
    });
}

/// What would be due soon comes along, so that many leases share few calls.
void Engine::bring_along(TimePoint at, Effects& effects) {
    std::vector<std::shared_ptr<Timed>> early;
    schedule_.up_to(at + core::renewal_jitter(usual_.longest), [&](Timed& item) {
        if (early.size() < most_a_pass && item.may_come_early(at)) early.push_back(item.shared_from_this());
    });
    for (const auto& item : early) {
        schedule_.remove(*item);
        item->on_time(*this, at, effects);
    }
}

void Engine::send_renewals(Batch& batch, store::Route route, TimePoint at, Effects& effects) {
    if (batch.items.empty()) return;
    const auto limit = std::min<core::nanoseconds>(options_.call_timeout, batch.shortest);
    auto sending = std::make_shared<Batch>(std::exchange(batch, {}));
    effects.add([this, sending, call = store::Call{at + limit, route}, at] {
        store_->renew(std::move(sending->items), call,
                      [this, sending, at](std::vector<store::RenewAnswer> answers) {
                          renewals_answered(sending->targets, at, std::move(answers));
                      });
    });
}

void Engine::renewals_answered(const std::vector<Batch::Target>& targets, TimePoint sent,
                               std::vector<store::RenewAnswer> answers) {
    with_lock([&](TimePoint at, Effects& effects) {
        for (std::size_t i = 0; i < targets.size() && i < answers.size(); ++i) {
            const auto target = targets[i].item.lock();
            if (auto lease = std::dynamic_pointer_cast<LeaseState>(target)) {
                lease_answered(lease, answers[i], {sent, targets[i].lease}, at, effects);
            } else if (auto line = std::dynamic_pointer_cast<KeyLine>(target)) {
                look_answered(line, answers[i], at, effects);
            }
        }
    });
}

void Engine::lease_answered(const LeasePtr& lease, const store::RenewAnswer& answer, LeaseMachine::Sent sent,
                            TimePoint at, Effects& effects) {
    auto& machine = lease->machine;
    if (machine.over() && !planted(Planted::renewal_revives)) return;
    const auto action = machine.answer(in_core(answer.renewal), sent, at);
    if (action == LeaseMachine::Action::tell_lost) {
        lose(lease, machine.reason(), effects);
    } else if (answer.renewal == store::Renewal::renewed) {
        if (lease->extend(machine.usable_until())) {
            tell_of(*lease, Event::Kind::renewed, "", effects);
        } else {
            machine.end();
            lose(lease, "the renewal was answered after the lease had ended", effects);
        }
    }
    schedule_.set(*lease, machine.due());
}

/// Stored before anyone is told.
void Engine::lose(const LeasePtr& lease, const char* reason, Effects& effects) {
    if (lease->phase != LeaseState::Phase::held) return;
    lease->kill();
    lease->phase = LeaseState::Phase::lost;
    lease->lost_reason = reason;
    schedule_.remove(*lease);
    forget_transaction(*lease);
    tell_of(*lease, Event::Kind::lost, reason, effects);
    effects.add([this, lease] { host_->deliver([lease] { lease->lost_source.request_stop(); }); });
}

void Engine::detach(LeaseState& lease) {
    with_lock([&](TimePoint, Effects&) {
        if (lease.phase != LeaseState::Phase::held) return;
        lease.phase = LeaseState::Phase::detached;
        end_lease(lease);
    });
}

bool Engine::at_limit(const LeaseState& lease) {
    const std::lock_guard lock(mutex_);
    return lease.machine.at_limit();
}

std::string Engine::lost_reason(const LeaseState& lease) {
    const std::lock_guard lock(mutex_);
    return lease.lost_reason;
}

void Engine::forget_transaction(const LeaseState& lease) {
    const auto& [key, owner] = *lease.subject;
    if (owner->txid.empty()) return;
    const auto [first, last] = transactions_.equal_range(key);
    const auto its =
        std::find_if(first, last, [&](const auto& one) { return one.second.lock().get() == &lease; });
    if (its != last) transactions_.erase(its);
}

/// No renewal from here on, and held() is false.
void Engine::end_lease(LeaseState& lease) {
    lease.kill();
    forget_transaction(lease);
    if (planted(Planted::renewed_after_release)) return;
    lease.machine.end();
    schedule_.remove(lease);
}

}  // namespace dlock::engine
