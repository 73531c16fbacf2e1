// SPDX-License-Identifier: Apache-2.0
#include "core/lease_machine.hpp"

#include <algorithm>
#include <utility>

#include "core/planted.hpp"

namespace dlock::core {

LeaseMachine::LeaseMachine(milliseconds lease, milliseconds skew, Renewing renewing, TimePoint counted_from,
                           TimePoint now) noexcept
    : lease_(lease),
      skew_(skew),
      usable_until_(
          core::usable_until(planted(Planted::counted_from_reply) ? now : counted_from, lease, skew)),
      next_renewal_(renewing == Renewing::automatic ? counted_from + renewal_period(lease)
                                                    : TimePoint::max()),
      newest_success_(counted_from),
      renewing_(renewing) {}

TimePoint LeaseMachine::due() const noexcept {
    return over_ ? TimePoint::max() : std::min(usable_until_, next_renewal_);
}

bool LeaseMachine::may_renew(TimePoint now) const noexcept {
    return !over_ && now < usable_until_ && next_renewal_ != TimePoint::max() &&
           now + renewal_jitter(lease_) >= next_renewal_;
}

LeaseMachine::Action LeaseMachine::timer(TimePoint now) noexcept {
    if (over_) return Action::nothing;
    if (now >= usable_until_) {
        if (planted(Planted::loss_not_told)) {
            over_ = true;
            return Action::nothing;
        }
        return lose("no renewal got through before the lease ended");
    }
    if (!may_renew(now)) return Action::nothing;
    if (!unanswered_since_) return Action::renew;
    if (!late_told_ && now - *unanswered_since_ >= late_after(lease_)) late_ = late_told_ = true;
    return Action::renew_fresh;
}

void LeaseMachine::sent(TimePoint now) noexcept {
    if (over_) return;
    if (unanswered_since_) {
        next_renewal_ = now + repeat_every(lease_);
    } else {
        unanswered_since_ = now;
        next_renewal_ = now + late_after(lease_);
    }
    if (renewing_ == Renewing::manual) next_renewal_ = TimePoint::max();
}

LeaseMachine::Action LeaseMachine::answer(Answer answer, TimePoint sent, TimePoint now) noexcept {
    if (over_) {
        if (planted(Planted::renewal_revives) && answer == Answer::renewed) over_ = false;
        if (over_) return Action::nothing;
    }
    if (answer == Answer::unknown && planted(Planted::unknown_taken_for_renewed)) answer = Answer::renewed;
    switch (answer) {
        case Answer::lost:
            return lose("the store no longer has the grant");
        case Answer::unknown:
            if (renewing_ == Renewing::automatic)
                next_renewal_ = std::min(next_renewal_, now + repeat_every(lease_));
            return Action::nothing;
        case Answer::held:
            unanswered_since_.reset();
            late_told_ = false;
            if (renewing_ == Renewing::automatic) next_renewal_ = now + repeat_every(lease_);
            return Action::nothing;
        case Answer::renewed:
            break;
    }
    // Somebody may already have read held() as false; a lease that was over stays over.
    if (now >= usable_until_ && !planted(Planted::renewal_revives))
        return lose("the renewal was answered after the lease had ended");
    renewed(planted(Planted::counted_from_reply) ? now : sent);
    return Action::nothing;
}

void LeaseMachine::renewed(TimePoint sent) noexcept {
    usable_until_ = std::max(usable_until_, core::usable_until(sent, lease_, skew_));
    newest_success_ = std::max(newest_success_, sent);
    // An older renewal's answer says nothing about the ones sent after it.
    if (unanswered_since_ && sent < *unanswered_since_) return;
    unanswered_since_.reset();
    late_told_ = false;
    if (renewing_ == Renewing::automatic) next_renewal_ = newest_success_ + renewal_period(lease_);
}

LeaseMachine::Action LeaseMachine::lose(const char* reason) noexcept {
    end();
    reason_ = reason;
    return Action::tell_lost;
}

void LeaseMachine::end() noexcept {
    over_ = true;
    late_ = false;
}

bool LeaseMachine::take_late() noexcept { return std::exchange(late_, false); }

}  // namespace dlock::core
