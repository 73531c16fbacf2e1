// SPDX-License-Identifier: Apache-2.0
/// Everything that takes something out of the store: releases, ended waits, what a call without answer may
/// have left.
#include <algorithm>
#include <utility>

#include "engine/attempt.hpp"
#include "engine/with_lock.hpp"
#include "engine/withdrawal.hpp"

namespace dlock::engine {

using namespace std::chrono_literals;

namespace {
constexpr core::nanoseconds first_pause = 50ms;
constexpr unsigned most_doublings = 5;
}  // namespace

Engine::WithdrawalPtr Engine::withdraw(store::ReleaseRequest request, WithdrawalUntil until,
                                       TimePoint give_up, TimePoint at, Effects& effects) {
    auto withdrawal = std::make_shared<Withdrawal>();
    withdrawal->request = std::move(request);
    withdrawal->until = until;
    withdrawal->give_up = give_up;
    withdrawal->answer_by = at + options_.call_timeout;
    withdrawal->place = withdrawals_.size();
    withdrawals_.push_back(withdrawal);
    send_withdrawal(withdrawal, at, effects);
    return withdrawal;
}

/// Of a lease that is lost to its holder and may still stand in the store.
void Engine::withdraw_grant(const LeaseState& lease, TimePoint at, Effects& effects) {
    withdraw({lease.subject, lease.grant, lease.mode, lease.handle, {}},
             lease.unsettled ? WithdrawalUntil::insist : WithdrawalUntil::confirmed,
             at + lease.machine.lease(), at, effects);
}

void Engine::send_withdrawal(const WithdrawalPtr& withdrawal, TimePoint at, Effects& effects) {
    const auto limit = std::max<core::nanoseconds>(core::nanoseconds(options_.call_timeout) / 4, 50ms);
    const auto route = withdrawal->failures == 0 ? store::Route::usual : store::Route::fresh;
    withdrawal->asking = true;
    ++withdrawal->call;
    schedule_.set(*withdrawal, at + limit);
    effects.add([this, withdrawal, number = withdrawal->call, call = store::Call{at + limit, route}] {
        store_->release(withdrawal->request, call,
                        [this, withdrawal, number](const Result<store::Released>& answer) {
                            withdrawal_answered(withdrawal, number, answer);
                        });
    });
}

void Engine::withdrawal_answered(const WithdrawalPtr& withdrawal, unsigned call,
                                 const Result<store::Released>& answer) {
    with_lock([&](TimePoint at, Effects& effects) {
        if (withdrawal->place == Withdrawal::nowhere) return;
        if (answer) return withdrawal->confirmed(*this, *answer, at, effects);
        if (call != withdrawal->call) return;
        withdrawal->failed(*this, answer.error(), at, effects);
    });
}

void Withdrawal::confirmed(Engine& engine, store::Released answer, TimePoint now, Effects& effects) {
    const auto self = std::static_pointer_cast<Withdrawal>(shared_from_this());
    once_confirmed = true;
    if (auto tell = std::exchange(settled, nullptr)) tell(answer, now, effects);
    if (until != Until::insist || now >= give_up) return engine.forget(self);
    retry_later(engine, now);
    if (engine.life_ == Engine::Life::closing) engine.idle_.notify_all();
}

void Withdrawal::failed(Engine& engine, const Error& error, TimePoint now, Effects& effects) {
    const auto self = std::static_pointer_cast<Withdrawal>(shared_from_this());
    if (error.fault == Fault::fatal || now >= give_up) {
        if (auto tell = std::exchange(settled, nullptr)) tell(error, now, effects);
        return engine.forget(self);
    }
    last_problem = error.detail;
    may_be_done = may_be_done || error.fault == Fault::indeterminate;
    if (now >= answer_by) {
        if (auto tell = std::exchange(settled, nullptr))
            tell(Error(errc::unknown_outcome, "the release was not confirmed yet: " + last_problem), now,
                 effects);
    }
    retry_later(engine, now);
}

void Withdrawal::retry_later(Engine& engine, TimePoint now) {
    asking = false;
    engine.schedule_.set(*this, now + first_pause * (1U << std::min(failures++, most_doublings)));
}

void Withdrawal::on_time(Engine& engine, TimePoint now, Effects& effects) {
    const auto self = std::static_pointer_cast<Withdrawal>(shared_from_this());
    if (asking) return failed(engine, {errc::unknown_outcome, "no answer in time"}, now, effects);
    if (now >= give_up) return failed(engine, {errc::unknown_outcome, last_problem}, now, effects);
    engine.send_withdrawal(self, now, effects);
}

void Engine::forget(const WithdrawalPtr& withdrawal) {
    schedule_.remove(*withdrawal);
    const std::size_t place = std::exchange(withdrawal->place, Withdrawal::nowhere);
    if (place == Withdrawal::nowhere) return;
    if (place + 1 < withdrawals_.size()) {
        withdrawals_[place] = std::move(withdrawals_.back());
        withdrawals_[place]->place = place;
    }
    withdrawals_.pop_back();
    if (life_ == Life::closing) idle_.notify_all();
}

void Engine::start_release(const LeasePtr& lease, std::atomic<bool>& parted, ReleaseDone done,
                           Lease::Deliver deliver) {
    if (inert())
        return done(Error(errc::unsupported, "this client was opened before fork(); open a new one"));
    with_lock([&](TimePoint at, Effects& effects) {
        if (deliver == Lease::Deliver::delivery_thread) {
            done = [this, done = std::move(done)](Result<void> result) {
                host_->deliver([done, result] { done(result); });
            };
        }
        if (lease->handles > 1 && !parted) {
            --lease->handles;
            parted = true;
        }
        if (parted) return effects.add([done = std::move(done)] { done({}); });
        if (lease->phase == LeaseState::Phase::held) begin_release(lease, at, effects);
        if (const auto releasing = lease->releasing.lock()) {
            releasing->waiters.push_back(std::move(done));
        } else {
            effects.add([done = std::move(done), result = outcome_of(*lease)] { done(result); });
        }
    });
}

void Engine::leave_behind(LeaseState& lease, core::After& after, TimePoint at) {
    after.hold_off = lease.hold_off;
    if (lease.at_least > at)
        after.hold_off = std::max(after.hold_off, std::chrono::ceil<core::milliseconds>(lease.at_least - at));
    after.result = std::move(lease.result);
    after.keep = lease.keep;
}

void Engine::begin_release(const LeasePtr& lease, TimePoint at, Effects& effects) {
    lease->phase = LeaseState::Phase::releasing;
    const TimePoint usable_until = lease->machine.usable_until();
    const auto give_up = std::max(usable_until, at) + lease->machine.lease();
    end_lease(*lease);
    // The next one here who wants the key alone asks when this is confirmed.
    const LinePtr line = core::alone(lease->mode) ? line_of(lease->subject->key) : nullptr;
    if (line) ++line->releasing;
    store::ReleaseRequest request{lease->subject, lease->grant, lease->mode, lease->handle, {}, {}};
    leave_behind(*lease, request.after, at);
    const auto withdrawal =
        withdraw(std::move(request), lease->unsettled ? WithdrawalUntil::insist : WithdrawalUntil::confirmed,
                 give_up, at, effects);
    lease->releasing = withdrawal;
    withdrawal->settled = [this, line, at, usable_until, weak = std::weak_ptr<Timed>(lease),
                           raw = withdrawal.get()](const Result<store::Released>& answer, TimePoint when,
                                                   Effects& more) {
        // It was held when we first asked for that: the call without answer did it, or its time ran out
        // since.
        const bool gone = answer && *answer == store::Released::not_owner;
        const bool by_us = gone && raw->may_be_done && at < usable_until;
        const auto result = by_us ? ended_by_us(raw->request.after) : released(answer);
        if (const auto alive = std::static_pointer_cast<LeaseState>(weak.lock())) {
            alive->phase = LeaseState::Phase::released;
            alive->release_result = result;
            alive->releasing.reset();
            if (result) tell_of(*alive, Event::Kind::released, "", more);
        }
        for (auto& waiter : std::exchange(raw->waiters, {}))
            more.add([waiter = std::move(waiter), result] { waiter(result); });
        if (!line) return;
        --line->releasing;
        next_head(line, when, more);
        // Without a line in the store nobody else tells the local head that the lock is free.
        if (!capabilities().lines) changed(line, when, more);
    };
}

Result<void> Engine::released(const Result<store::Released>& answer) {
    if (!answer) return answer.error();
    if (*answer == store::Released::released) return {};
    return Error(errc::not_owner,
                 "the grant had ended before the release, so the work may have overlapped another's");
}

Result<void> Engine::ended_by_us(const core::After& after) {
    if (!after.result) return {};
    return Error(errc::unknown_outcome, "the grant has ended, with its result or without it");
}

Result<void> Engine::outcome_of(const LeaseState& lease) {
    if (lease.release_result) return *lease.release_result;
    if (lease.phase == LeaseState::Phase::detached)
        return Error(errc::invalid_argument, "the lease was detached; release it by its id");
    return Error(errc::lost, lease.lost_reason);
}

void Engine::drop(const LeasePtr& lease) noexcept {
    if (inert()) return;
    {
        const std::lock_guard lock(mutex_);
        if (lease->handles > 1) return static_cast<void>(--lease->handles);
        if (lease->phase == LeaseState::Phase::released) return schedule_.remove(*lease);  // the usual end
    }
    with_lock([&](TimePoint at, Effects& effects) {
        if (lease->phase == LeaseState::Phase::held && life_ != Life::closed)
            begin_release(lease, at, effects);
        schedule_.remove(*lease);
        // Lost by the holder's own clock, the grant may still stand in the store for its margin.
        if (lease->phase == LeaseState::Phase::lost && life_ == Life::open)
            withdraw_grant(*lease, at, effects);
    });
}

}  // namespace dlock::engine
