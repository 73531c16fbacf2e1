// SPDX-License-Identifier: Apache-2.0
#include "core/lease_machine.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dlock::core {
namespace {

using namespace std::chrono_literals;
using Action = LeaseMachine::Action;
using Answer = LeaseMachine::Answer;
using Renewing = LeaseMachine::Renewing;

constexpr milliseconds lease = 6s;  // margin 300 ms, renewal each 2 s, late after 600 ms, then each 300 ms
constexpr TimePoint start{1000s};
constexpr TimePoint end = start + 5700ms;

LeaseMachine granted(Renewing renewing = Renewing::automatic, TimePoint counted_from = start) {
    return {lease, 0ms, renewing, counted_from, start};
}
/// Its first renewal is on its way.
LeaseMachine renewing() {
    LeaseMachine machine = granted();
    EXPECT_EQ(machine.timer(start + 2s), Action::renew);
    machine.sent(start + 2s);
    return machine;
}

TEST(LeaseMachine, counts_from_before_the_sending_never_from_the_answer) {
    LeaseMachine machine(lease, 100ms, Renewing::automatic, start, start + 4s);
    EXPECT_EQ(machine.usable_until(), start + 6s - 300ms - 100ms);
    machine.sent(start + 4s);
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 4s, lease}, start + 5s), Action::nothing);
    EXPECT_EQ(machine.usable_until(), start + 4s + 6s - 300ms - 100ms);
}

TEST(LeaseMachine, renews_each_third_and_up_to_a_twentieth_of_it_earlier) {
    LeaseMachine machine = granted();
    EXPECT_EQ(machine.due(), start + 2s);
    struct Row {
        nanoseconds at;
        bool may;
    };
    for (const Row& row : {Row{0s, false}, Row{1900ms - 1ns, false}, Row{1900ms, true}, Row{2s, true},
                           Row{3s, true}, Row{5700ms - 1ns, true}, Row{5700ms, false}}) {
        EXPECT_EQ(machine.may_renew(start + row.at), row.may) << row.at.count();
        LeaseMachine copy = machine;
        const Action expected = row.may ? Action::renew : row.at < 2s ? Action::nothing : Action::tell_lost;
        EXPECT_EQ(copy.timer(start + row.at), expected) << row.at.count();
    }
}

TEST(LeaseMachine, next_renewal_is_a_third_after_the_sending_of_the_last_that_worked) {
    LeaseMachine machine = renewing();
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 2s, lease}, start + 2100ms), Action::nothing);
    EXPECT_EQ(machine.due(), start + 4s);
    EXPECT_EQ(machine.usable_until(), end + 2s);
}

TEST(LeaseMachine, without_answer_it_repeats_on_fresh_connections_and_says_once_that_it_is_late) {
    LeaseMachine machine = renewing();
    const std::vector<nanoseconds> repeats{2600ms, 2900ms, 3200ms, 3500ms, 3800ms, 4100ms,
                                           4400ms, 4700ms, 5000ms, 5300ms, 5600ms};
    for (const nanoseconds at : repeats) {
        EXPECT_EQ(machine.due(), start + at);
        EXPECT_EQ(machine.timer(start + at - 101ms), Action::nothing);
        EXPECT_EQ(machine.timer(start + at), Action::renew_fresh);
        EXPECT_EQ(machine.take_late(), at == 2600ms);
        machine.sent(start + at);
    }
    EXPECT_EQ(machine.due(), end);
    EXPECT_EQ(machine.timer(end - 1ns), Action::nothing);
    EXPECT_EQ(machine.timer(end), Action::tell_lost);
    EXPECT_FALSE(machine.take_late());
}

TEST(LeaseMachine, late_is_said_again_for_the_next_renewal_that_is_late) {
    LeaseMachine machine = renewing();
    EXPECT_EQ(machine.timer(start + 2600ms), Action::renew_fresh);
    EXPECT_TRUE(machine.take_late());
    machine.sent(start + 2600ms);
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 2600ms, lease}, start + 2700ms), Action::nothing);
    EXPECT_EQ(machine.timer(start + 4600ms), Action::renew);
    machine.sent(start + 4600ms);
    EXPECT_EQ(machine.timer(start + 5200ms), Action::renew_fresh);
    EXPECT_TRUE(machine.take_late());
}

/// A quick "no answer" is repeated soon, but is not late before a tenth of the lease.
TEST(LeaseMachine, unknown_is_repeated_soon_and_extends_nothing) {
    LeaseMachine machine = renewing();
    EXPECT_EQ(machine.answer(Answer::unknown, {start + 2s, lease}, start + 2010ms), Action::nothing);
    EXPECT_EQ(machine.usable_until(), end);
    EXPECT_EQ(machine.due(), start + 2310ms);
    EXPECT_EQ(machine.timer(start + 2310ms), Action::renew_fresh);
    EXPECT_FALSE(machine.take_late());
    machine.sent(start + 2310ms);
    EXPECT_EQ(machine.timer(start + 2610ms), Action::renew_fresh);
    EXPECT_TRUE(machine.take_late());
}

TEST(LeaseMachine, held_extends_nothing_and_is_asked_again_soon) {
    LeaseMachine machine = renewing();
    EXPECT_EQ(machine.answer(Answer::held, {start + 2s, lease}, start + 2100ms), Action::nothing);
    EXPECT_EQ(machine.usable_until(), end);
    EXPECT_EQ(machine.due(), start + 2400ms);
    EXPECT_EQ(machine.timer(start + 2400ms), Action::renew);
}

TEST(LeaseMachine, late_success_counts_from_its_own_sending) {
    LeaseMachine machine = renewing();
    EXPECT_EQ(machine.timer(start + 2600ms), Action::renew_fresh);
    machine.sent(start + 2600ms);
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 2s, lease}, start + 2700ms), Action::nothing);
    EXPECT_EQ(machine.usable_until(), end + 2s);
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 2600ms, lease}, start + 2800ms), Action::nothing);
    EXPECT_EQ(machine.usable_until(), end + 2600ms);
    EXPECT_EQ(machine.due(), start + 4600ms);
}

TEST(LeaseMachine, answers_out_of_order_and_doubled_never_shorten_it) {
    LeaseMachine machine = renewing();
    EXPECT_EQ(machine.timer(start + 2600ms), Action::renew_fresh);
    machine.sent(start + 2600ms);
    for (const nanoseconds sent : {2600ms, 2000ms, 2600ms, 2000ms}) {
        EXPECT_EQ(machine.answer(Answer::renewed, {start + sent, lease}, start + 2700ms), Action::nothing);
        EXPECT_EQ(machine.usable_until(), end + 2600ms);
        EXPECT_EQ(machine.due(), start + 4600ms);
    }
}

/// Each answer at each moment: before the end, at it, and after somebody was told.
TEST(LeaseMachine, every_answer_at_every_moment) {
    struct Row {
        Answer answer;
        nanoseconds at;
        Action action;
        bool over;
    };
    for (const Row& row : {
             Row{Answer::renewed, 2001ms, Action::nothing, false},
             Row{Answer::held, 2001ms, Action::nothing, false},
             Row{Answer::unknown, 2001ms, Action::nothing, false},
             Row{Answer::lost, 2001ms, Action::tell_lost, true},
             Row{Answer::renewed, 5700ms - 1ns, Action::nothing, false},
             Row{Answer::lost, 5700ms - 1ns, Action::tell_lost, true},
             Row{Answer::renewed, 5700ms, Action::tell_lost, true},
             Row{Answer::held, 5700ms, Action::nothing, false},
             Row{Answer::unknown, 5700ms, Action::nothing, false},
             Row{Answer::lost, 5700ms, Action::tell_lost, true},
             Row{Answer::renewed, 9s, Action::tell_lost, true},
         }) {
        SCOPED_TRACE(std::to_string(static_cast<int>(row.answer)) + " at " + std::to_string(row.at.count()));
        LeaseMachine machine = renewing();
        EXPECT_EQ(machine.answer(row.answer, {start + 2s, lease}, start + row.at), row.action);
        EXPECT_EQ(machine.over(), row.over);
        EXPECT_EQ(std::string(machine.reason()).empty(), !row.over);
        if (!row.over && row.at >= 5700ms) {
            EXPECT_LE(machine.due(), end);
            EXPECT_EQ(machine.timer(start + row.at), Action::tell_lost);
        }
    }
}

/// Released, lost by an answer, or lost by the clock: what is over stays over, and is told once.
TEST(LeaseMachine, nothing_revives_it) {
    LeaseMachine released = renewing();
    released.end();
    LeaseMachine lost = renewing();
    EXPECT_EQ(lost.answer(Answer::lost, {start + 2s, lease}, start + 2100ms), Action::tell_lost);
    LeaseMachine ran_out = renewing();
    EXPECT_EQ(ran_out.timer(end), Action::tell_lost);
    for (LeaseMachine* machine : {&released, &lost, &ran_out}) {
        for (const Answer answer : {Answer::renewed, Answer::held, Answer::lost, Answer::unknown})
            EXPECT_EQ(machine->answer(answer, {start + 2s, lease}, start + 2200ms), Action::nothing);
        EXPECT_TRUE(machine->over());
        EXPECT_EQ(machine->timer(start + 3s), Action::nothing);
        EXPECT_EQ(machine->timer(end), Action::nothing);
        EXPECT_FALSE(machine->may_renew(start + 2s));
        EXPECT_FALSE(machine->take_late());
        machine->sent(start + 3s);
        EXPECT_EQ(machine->due(), TimePoint::max());
    }
}

TEST(LeaseMachine, manual_is_never_renewed_by_itself) {
    LeaseMachine machine = granted(Renewing::manual);
    EXPECT_EQ(machine.due(), end);
    EXPECT_EQ(machine.timer(start + 5s), Action::nothing);
    EXPECT_FALSE(machine.may_renew(start + 5s));
    machine.sent(start + 5s);
    EXPECT_EQ(machine.due(), end);
    for (const Answer answer : {Answer::unknown, Answer::held}) {
        EXPECT_EQ(machine.answer(answer, {start + 5s, lease}, start + 5100ms), Action::nothing);
        EXPECT_EQ(machine.due(), end);
    }
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 5s, lease}, start + 5100ms), Action::nothing);
    EXPECT_EQ(machine.due(), end + 5s);
    EXPECT_EQ(machine.timer(end + 5s), Action::tell_lost);
}

TEST(LeaseMachine, granted_late_it_renews_at_once) {
    LeaseMachine machine = granted(Renewing::automatic, start - 3s);
    EXPECT_LT(machine.due(), start);
    EXPECT_EQ(machine.timer(start), Action::renew);
    EXPECT_EQ(machine.usable_until(), end - 3s);
}

LeaseMachine limited(milliseconds granted_lease, LeaseMachine::Limits limits) {
    return {granted_lease, lease, 0ms, Renewing::automatic, start, start, limits};
}

TEST(LeaseMachine, max_hold_shortens_the_last_renewals_to_its_moment_and_then_the_lease_is_lost) {
    LeaseMachine machine = limited(lease, {.hold_end = start + 9s});
    EXPECT_EQ(machine.lease_at(start + 2s), lease);
    EXPECT_EQ(machine.timer(start + 2s), Action::renew);
    machine.sent(start + 2s);
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 2s, lease}, start + 2100ms), Action::nothing);
    EXPECT_FALSE(machine.at_limit());
    EXPECT_EQ(machine.lease_at(start + 4s), 5s) << "what is left";
    EXPECT_EQ(machine.timer(start + 4s), Action::renew);
    machine.sent(start + 4s);
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 4s, 5s}, start + 4100ms), Action::nothing);
    EXPECT_TRUE(machine.at_limit());
    EXPECT_EQ(machine.usable_until(), start + 9s - 250ms) << "the margin of the shortened lease";
    EXPECT_EQ(machine.due(), machine.usable_until()) << "no renewal can help";
    EXPECT_FALSE(machine.may_renew(start + 8s));
    EXPECT_EQ(machine.timer(start + 9s - 250ms), Action::tell_lost);
    EXPECT_STREQ(machine.reason(), "max_hold is over");
}

TEST(LeaseMachine, a_max_hold_of_one_lease_is_never_renewed) {
    LeaseMachine machine = limited(4s, {.hold_end = start + 4s});
    EXPECT_TRUE(machine.at_limit());
    EXPECT_EQ(machine.due(), start + 4s - 200ms);
    EXPECT_EQ(machine.timer(start + 2s), Action::nothing);
}

TEST(LeaseMachine, with_the_limit_near_a_lost_renewal_is_still_the_reason) {
    LeaseMachine machine = limited(lease, {.hold_end = start + 9s});
    EXPECT_EQ(machine.timer(end), Action::tell_lost);
    EXPECT_STREQ(machine.reason(), "no renewal got through before the lease ended");
}

TEST(LeaseMachine, without_progress_the_lease_ends_and_with_it_goes_on) {
    const LeaseMachine::Limits limits{.progress_within = 3s};
    LeaseMachine silent = limited(3s, limits);
    EXPECT_TRUE(silent.at_limit());
    EXPECT_EQ(silent.timer(start + 3s - 150ms), Action::tell_lost);
    EXPECT_STREQ(silent.reason(), "no progress was told within progress_within");
    silent.progressed(start + 3s);
    EXPECT_EQ(silent.due(), TimePoint::max()) << "too late";

    LeaseMachine machine = limited(3s, limits);
    machine.progressed(start + 2s);
    EXPECT_FALSE(machine.at_limit());
    EXPECT_EQ(machine.due(), start + 1s) << "a third of the lease that it has";
    EXPECT_EQ(machine.timer(start + 2s), Action::renew);
    EXPECT_EQ(machine.lease_at(start + 2s), 3s);
    machine.sent(start + 2s);
    // Told again before the answer: what the renewal asked for counts, not what it could ask now.
    machine.progressed(start + 2500ms);
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 2s, 3s}, start + 2600ms), Action::nothing);
    EXPECT_EQ(machine.usable_until(), start + 5s - 150ms);
    EXPECT_FALSE(machine.at_limit());
}

TEST(LeaseMachine, the_nearer_of_two_limits_counts) {
    LeaseMachine machine = limited(3s, {.hold_end = start + 4s, .progress_within = 3s});
    machine.progressed(start + 2s);
    EXPECT_EQ(machine.lease_at(start + 2s), 2s);
    machine.sent(start + 2s);
    EXPECT_EQ(machine.answer(Answer::renewed, {start + 2s, 2s}, start + 2100ms), Action::nothing);
    EXPECT_TRUE(machine.at_limit());
    EXPECT_EQ(machine.timer(start + 4s - 100ms), Action::tell_lost);
    EXPECT_STREQ(machine.reason(), "max_hold is over");
}

}  // namespace
}  // namespace dlock::core
