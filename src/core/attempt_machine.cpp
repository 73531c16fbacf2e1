// SPDX-License-Identifier: Apache-2.0
#include "core/attempt_machine.hpp"

#include <algorithm>
#include <utility>

#include "core/planted.hpp"

namespace dlock::core {

using namespace std::chrono_literals;

namespace {
/// Without a line: how often a contended lock is looked at, unless the store says that sooner is worth while.
constexpr nanoseconds poll_every = 200ms;
constexpr nanoseconds first_backoff = 50ms;
constexpr unsigned most_doublings = 4;
}  // namespace

AttemptMachine::AttemptMachine(const AttemptRules& rules, TimePoint now) noexcept
    : rules_(rules), due_(rules.waits ? rules.wait_until : now + rules.call_timeout) {}

TimePoint AttemptMachine::ask_deadline(TimePoint now) const noexcept {
    if (settling_) return std::min(settle_until_, now + settle_within(rules_.lease) / 2);
    if (!rules_.waits)
        return std::max(rules_.wait_until + rules_.call_timeout, now + rules_.call_timeout / 4);
    // A wait is a hard limit, but a call sent just before its end gets a fair chance.
    return std::min(now + rules_.call_timeout, std::max(rules_.wait_until, now + rules_.call_timeout / 4));
}

AttemptMachine::Action AttemptMachine::ask(TimePoint now) {
    state_ = State::asking;
    again_ = false;
    ++call_;
    if (!counting_ || planted(Planted::repeat_counts_anew)) counted_ = now;
    counting_ = true;
    due_ = ask_deadline(now);
    return settling_ ? Action::ask_fresh : Action::ask;
}

AttemptMachine::Action AttemptMachine::start(TimePoint now) {
    if (state_ != State::idle) return Action::nothing;
    return rules_.waits && now >= rules_.wait_until ? end_wait(now) : ask(now);
}

AttemptMachine::Action AttemptMachine::inherit(TimePoint now) {
    if (state_ != State::idle) return Action::nothing;
    placed_ = true;
    if (now >= rules_.wait_until) return end_wait(now);
    state_ = State::waiting;
    due_ = rules_.wait_until;
    return Action::nothing;
}

AttemptMachine::Action AttemptMachine::granted(unsigned call, std::optional<TimePoint> counted_from,
                                               TimePoint now) {
    if (!current(call) && !planted(Planted::reply_taken_for_other)) {
        // A late answer of an earlier call: the grant is under an id that will be, or was, withdrawn.
        leftover_ = true;
        return Action::nothing;
    }
    if (counted_from) counted_ = *counted_from;
    placed_ = false;
    if (stopping_) {
        placed_ = true;  // the withdrawal takes the grant out too
        return withdraw_then_fail(*stopping_, now);
    }
    if (now >= usable_until(counted_, rules_.lease, rules_.skew) && !planted(Planted::counted_from_reply)) {
        // Granted so late that nothing is left of the lease: give it back and start anew.
        definite();
        next_id_ = NextId::fresh_withdraw_old;
        if (now >= rules_.wait_until || !rules_.waits) {
            leftover_ = true;
            return finish({errc::timed_out, "the store answered so late that nothing was left of the lease"});
        }
        return ask(now);
    }
    state_ = State::over;
    due_ = TimePoint::max();
    return Action::hold;
}

/// The store has said that this id has no grant. Calls without answer may still take effect, under the old
/// id.
void AttemptMachine::definite() noexcept {
    next_id_ = unanswered_ ? NextId::fresh_withdraw_old : NextId::fresh;
    unanswered_ = settling_ = counting_ = false;
    away_since_.reset();
    failures_ = 0;
}

AttemptMachine::Action AttemptMachine::queued(unsigned call, TimePoint now) {
    if (!current(call)) return Action::nothing;
    definite();
    placed_ = true;
    if (stopping_) return withdraw_then_fail(*stopping_, now);
    if (now >= rules_.wait_until) return end_wait(now);
    if (again_) return ask(now);
    state_ = State::waiting;
    due_ = rules_.wait_until;
    return Action::nothing;
}

AttemptMachine::Action AttemptMachine::contended(unsigned call, std::optional<milliseconds> retry_in,
                                                 TimePoint now) {
    if (!current(call)) return Action::nothing;
    definite();
    if (stopping_) return withdraw_then_fail(*stopping_, now);
    if (!rules_.waits || now >= rules_.wait_until) return end_wait(now);
    if (again_) return ask(now);
    const auto hinted = retry_in ? std::max<nanoseconds>(*retry_in, 10ms) : nanoseconds::max();
    return pause(std::min(hinted, poll_every), now);
}

AttemptMachine::Action AttemptMachine::done(unsigned call, TimePoint now) {
    if (!current(call)) return Action::nothing;
    definite();
    return withdraw_then_fail(stopping_ ? *stopping_ : Error{errc::contended, "it is done already"}, now);
}

AttemptMachine::Action AttemptMachine::failed(unsigned call, const Error& error, TimePoint now) {
    if (!current(call)) return Action::nothing;
    if (error.fault == Fault::indeterminate) {
        if (planted(Planted::unknown_taken_for_contended)) return contended(call, std::nullopt, now);
        return no_answer(error, now);
    }
    if (stopping_) return withdraw_then_fail(*stopping_, now);
    if (error.fault == Fault::retry) return store_away(error, now);
    leftover_ = unanswered_ || placed_;
    return finish(error);
}

AttemptMachine::Action AttemptMachine::no_answer(const Error& error, TimePoint now) {
    unanswered_ = true;
    if (stopping_) {
        // Not worth asking again: take out whatever came of it.
        leftover_ = placed_ = true;
        return withdraw_then_fail(*stopping_, now);
    }
    if (!settling_) {
        settling_ = true;
        settle_until_ = now + settle_within(rules_.lease);
        return ask(now);
    }
    if (now < settle_until_) return pause(std::min<nanoseconds>(settle_within(rules_.lease) / 10, 50ms), now);
    leftover_ = true;
    return finish({errc::unknown_outcome, "the store did not answer: " + error.detail +
                                              "; what it may have granted is being withdrawn"});
}

/// Certainly not done, since the store could not be asked.
AttemptMachine::Action AttemptMachine::store_away(const Error& error, TimePoint now) {
    if (settling_) return no_answer(error, now);
    if (!away_since_) away_since_ = now;
    const bool patient = rules_.unavailable_after == milliseconds::max() ||
                         now - *away_since_ < nanoseconds(rules_.unavailable_after);
    if (!rules_.waits || !patient || now >= rules_.wait_until) {
        leftover_ = placed_;
        return finish(error);
    }
    const auto backoff = first_backoff * (1U << std::min(failures_++, most_doublings));
    return pause(backoff, now);
}

AttemptMachine::Action AttemptMachine::pause(nanoseconds delay, TimePoint now) {
    state_ = State::pausing;
    due_ = settling_ ? std::min(now + delay, settle_until_) : std::min(now + delay, rules_.wait_until);
    return Action::nothing;
}

AttemptMachine::Action AttemptMachine::changed(TimePoint now) {
    if (state_ == State::asking) again_ = true;
    if (state_ != State::waiting && (state_ != State::pausing || settling_)) return Action::nothing;
    return now >= rules_.wait_until ? end_wait(now) : ask(now);
}

AttemptMachine::Action AttemptMachine::timer(TimePoint now) {
    if (now < due_) return Action::nothing;
    switch (state_) {
        case State::idle:
        case State::waiting:
            return end_wait(now);
        case State::asking:
            return failed(call_, {errc::unknown_outcome, "no answer in time", Fault::indeterminate}, now);
        case State::pausing:
            if (settling_ && now >= settle_until_)
                return no_answer({errc::unknown_outcome, "no answer in time"}, now);
            return now >= rules_.wait_until && !settling_ ? end_wait(now) : ask(now);
        case State::withdrawing:
            return withdrawn(Withdrawn::unconfirmed);
        case State::over:
            break;
    }
    return Action::nothing;
}

AttemptMachine::Action AttemptMachine::stop(Error why, TimePoint now) {
    switch (state_) {
        case State::idle:
            return finish(std::move(why));
        case State::asking:
            // The call in flight may be granted: only its answer tells what there is to withdraw.
            stopping_ = std::move(why);
            return Action::nothing;
        case State::waiting:
        case State::pausing:
            leftover_ = unanswered_;
            return withdraw_then_fail(std::move(why), now);
        case State::withdrawing:
        case State::over:
            break;
    }
    return Action::nothing;
}

AttemptMachine::Action AttemptMachine::end_wait(TimePoint now) {
    if (rules_.waits) return withdraw_then_fail({errc::timed_out, "the wait ended"}, now);
    return withdraw_then_fail({errc::contended, "the lock is held or waited for"}, now);
}

/// Fails with `error`, after what stands in the store is taken out.
AttemptMachine::Action AttemptMachine::withdraw_then_fail(Error error, TimePoint now) {
    if (!placed_ || planted(Planted::withdraw_forgotten)) return finish(std::move(error));
    error_ = std::move(error);
    state_ = State::withdrawing;
    due_ = now + rules_.call_timeout / 4;
    return Action::withdraw;
}

AttemptMachine::Action AttemptMachine::withdrawn(Withdrawn how) {
    if (state_ != State::withdrawing) return Action::nothing;
    if (how == Withdrawn::unconfirmed) leftover_ = true;
    return finish(*error_);
}

AttemptMachine::Action AttemptMachine::finish(Error error) {
    error_ = std::move(error);
    state_ = State::over;
    due_ = TimePoint::max();
    return Action::fail;
}

AttemptMachine::NextId AttemptMachine::take_next_id() noexcept {
    return std::exchange(next_id_, NextId::same);
}

}  // namespace dlock::core
