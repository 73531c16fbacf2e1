// SPDX-License-Identifier: Apache-2.0
#include "core/lease_machine.hpp"

#include <algorithm>
#include <utility>

#include "core/planted.hpp"

namespace dlock::core {

namespace {

/// What is left to a limit may be next to nothing.
constexpr milliseconds shortest_pace{100};

TimePoint after(TimePoint from, milliseconds time) noexcept {
    return time == milliseconds::max() ? TimePoint::max() : from + time;
}

}  // namespace

LeaseMachine::LeaseMachine(milliseconds lease, milliseconds renewed_lease, milliseconds skew,
                           Renewing renewing, TimePoint counted_from, TimePoint now, Limits limits) noexcept
    : lease_(renewed_lease),
      current_(lease),
      skew_(skew),
      limits_(limits),
      stall_end_(after(counted_from, limits.progress_within)),
      covered_(counted_from + lease),
      usable_until_(
          core::usable_until(planted(Planted::counted_from_reply) ? now : counted_from, lease, skew)),
      next_renewal_(renewing == Renewing::automatic ? counted_from + renewal_period(lease)
                                                    : TimePoint::max()),
      newest_success_(counted_from),
      renewing_(renewing) {}

TimePoint LeaseMachine::due() const noexcept {
    if (over_) return TimePoint::max();
    return at_limit() ? usable_until_ : std::min(usable_until_, next_renewal_);
}

milliseconds LeaseMachine::lease_at(TimePoint now) const noexcept {
    if (limit() == TimePoint::max()) return lease_;
    return std::clamp(std::chrono::floor<milliseconds>(limit() - now), milliseconds(0), lease_);
}

/// Within a millisecond: what is asked for is rounded down.
bool LeaseMachine::at_limit() const noexcept {
    return limit() != TimePoint::max() && limit() - covered_ <= milliseconds(1);
}

void LeaseMachine::progressed(TimePoint now) noexcept {
    if (!over_) stall_end_ = std::max(stall_end_, after(now, limits_.progress_within));
}

const char* LeaseMachine::end_reason() const noexcept {
    if (!at_limit()) return "no renewal got through before the lease ended";
    return stall_end_ < limits_.hold_end ? "no progress was told within progress_within" : "max_hold is over";
}

bool LeaseMachine::may_renew(TimePoint now) const noexcept {
    return !over_ && now < usable_until_ && !at_limit() && next_renewal_ != TimePoint::max() &&
           now + renewal_jitter(current_) >= next_renewal_;
}

LeaseMachine::Action LeaseMachine::timer(TimePoint now) noexcept {
    if (over_) return Action::nothing;
    if (now >= usable_until_) {
        if (planted(Planted::loss_not_told)) {
            over_ = true;
            return Action::nothing;
        }
        return lose(end_reason());
    }
    if (!may_renew(now)) return Action::nothing;
    if (!unanswered_since_) return Action::renew;
    if (!late_told_ && now - *unanswered_since_ >= late_after(current_)) late_ = late_told_ = true;
    return Action::renew_fresh;
}

void LeaseMachine::sent(TimePoint now) noexcept {
    if (over_) return;
    if (unanswered_since_) {
        next_renewal_ = now + repeat_every(current_);
    } else {
        unanswered_since_ = now;
        next_renewal_ = now + late_after(current_);
    }
    if (renewing_ == Renewing::manual) next_renewal_ = TimePoint::max();
}

LeaseMachine::Action LeaseMachine::answer(Answer answer, Sent sent, TimePoint now) noexcept {
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
                next_renewal_ = std::min(next_renewal_, now + repeat_every(current_));
            return Action::nothing;
        case Answer::held:
            unanswered_since_.reset();
            late_told_ = false;
            if (renewing_ == Renewing::automatic) next_renewal_ = now + repeat_every(current_);
            return Action::nothing;
        case Answer::renewed:
            break;
    }
    // Somebody may already have read held() as false; a lease that was over stays over.
    if (now >= usable_until_ && !planted(Planted::renewal_revives))
        return lose("the renewal was answered after the lease had ended");
    if (planted(Planted::counted_from_reply)) sent.at = now;
    renewed(sent);
    return Action::nothing;
}

void LeaseMachine::renewed(Sent sent) noexcept {
    usable_until_ = std::max(usable_until_, core::usable_until(sent.at, sent.lease, skew_));
    if (sent.at >= newest_success_) current_ = std::max(sent.lease, std::min(lease_, shortest_pace));
    newest_success_ = std::max(newest_success_, sent.at);
    covered_ = std::max(covered_, sent.at + sent.lease);
    // An older renewal's answer says nothing about the ones sent after it.
    if (unanswered_since_ && sent.at < *unanswered_since_) return;
    unanswered_since_.reset();
    late_told_ = false;
    if (renewing_ == Renewing::automatic) next_renewal_ = newest_success_ + renewal_period(current_);
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
