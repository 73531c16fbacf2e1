// SPDX-License-Identifier: Apache-2.0
#include "core/attempt_machine.hpp"

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace dlock::core {
namespace {

using namespace std::chrono_literals;
using Action = AttemptMachine::Action;
using NextId = AttemptMachine::NextId;
using Withdrawn = AttemptMachine::Withdrawn;

constexpr TimePoint start{1000s};
constexpr TimePoint forever_long = TimePoint::max();

AttemptRules rules(milliseconds wait = 10s, milliseconds lease = 6s) {
    return {.lease = lease,
            .skew = 0ms,
            .call_timeout = 1s,
            .unavailable_after = 5s,
            .wait_until = start + wait,
            .waits = wait != 0ms};
}
AttemptRules endless() {
    AttemptRules endless = rules();
    endless.wait_until = forever_long;
    return endless;
}
AttemptMachine asking(const AttemptRules& by = rules()) {
    AttemptMachine machine(by, start);
    EXPECT_EQ(machine.start(start), Action::ask);
    return machine;
}
Error silent() { return {errc::unknown_outcome, "no answer"}; }
Error refused() { return {errc::unavailable, "refused"}; }
Error fatal() { return {errc::unauthorized, "wrong password"}; }
Error cancelled() { return {errc::cancelled, "not wanted"}; }

// --- every state and every event ---------------------------------------------------------------------

AttemptMachine settling() {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.failed(1, silent(), start), Action::ask_fresh);
    return machine;
}
AttemptMachine waiting() {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.queued(1, start), Action::nothing);
    EXPECT_TRUE(machine.waiting());
    return machine;
}
AttemptMachine polling() {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.contended(1, {}, start), Action::nothing);
    return machine;
}
AttemptMachine away() {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.failed(1, refused(), start), Action::nothing);
    return machine;
}
AttemptMachine settle_pause() {
    AttemptMachine machine = settling();
    EXPECT_EQ(machine.failed(2, silent(), start), Action::nothing);
    return machine;
}
AttemptMachine withdrawing() {
    AttemptMachine machine = waiting();
    EXPECT_EQ(machine.stop(cancelled(), start), Action::withdraw);
    return machine;
}
AttemptMachine holding() {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.granted(1, {}, start), Action::hold);
    return machine;
}
AttemptMachine failed() {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.failed(1, fatal(), start), Action::fail);
    return machine;
}

struct Happening {
    std::string_view name;
    std::function<Action(AttemptMachine&)> feed;
};
const std::array happenings{
    Happening{"start", [](AttemptMachine& m) { return m.start(start); }},
    Happening{"inherit", [](AttemptMachine& m) { return m.inherit(start); }},
    Happening{"granted", [](AttemptMachine& m) { return m.granted(m.call(), {}, start); }},
    Happening{"an older call granted", [](AttemptMachine& m) { return m.granted(m.call() + 9, {}, start); }},
    Happening{"queued", [](AttemptMachine& m) { return m.queued(m.call(), start); }},
    Happening{"contended", [](AttemptMachine& m) { return m.contended(m.call(), {}, start); }},
    Happening{"refused", [](AttemptMachine& m) { return m.failed(m.call(), refused(), start); }},
    Happening{"fatal", [](AttemptMachine& m) { return m.failed(m.call(), fatal(), start); }},
    Happening{"silent", [](AttemptMachine& m) { return m.failed(m.call(), silent(), start); }},
    Happening{"changed", [](AttemptMachine& m) { return m.changed(start); }},
    Happening{"timer too early", [](AttemptMachine& m) { return m.timer(start); }},
    Happening{"timer", [](AttemptMachine& m) { return m.timer(m.due()); }},
    Happening{"stop", [](AttemptMachine& m) { return m.stop(cancelled(), start); }},
    Happening{"withdrawn", [](AttemptMachine& m) { return m.withdrawn(Withdrawn::confirmed); }},
    Happening{"not confirmed", [](AttemptMachine& m) { return m.withdrawn(Withdrawn::unconfirmed); }},
};
struct Situation {
    std::string_view name;
    std::function<AttemptMachine()> make;
    std::string_view actions;  ///< a letter for each happening, see below
};

/// - nothing, a ask, f ask_fresh, w withdraw, h hold, x fail
char letter(Action action) { return "-afwhx"[static_cast<std::size_t>(action)]; }

TEST(AttemptMachine, every_event_in_every_state) {
    const std::array situations{
        //                                                    s i g o q c r f s c t t s w n
        Situation{"idle", [] { return AttemptMachine(rules(), start); }, "a----------xx--"},
        Situation{"asking", [] { return asking(); }, "--h----xf--f---"},
        Situation{"settling", settling, "--h----x-------"},
        Situation{"waiting", waiting, "---------a-ww--"},
        Situation{"polling", polling, "---------a-ax--"},
        Situation{"away", away, "---------a-ax--"},
        Situation{"pause while settling", settle_pause, "-----------fx--"},
        Situation{"withdrawing", withdrawing, "-----------x-xx"},
        Situation{"holding", holding, "---------------"},
        Situation{"failed", failed, "---------------"},
    };
    for (const Situation& situation : situations) {
        for (std::size_t i = 0; i < happenings.size(); ++i) {
            SCOPED_TRACE(std::string(happenings.at(i).name) + " while " + std::string(situation.name));
            AttemptMachine machine = situation.make();
            const bool was_over = machine.over();
            const Action action = happenings.at(i).feed(machine);
            EXPECT_EQ(letter(action), situation.actions[i]);
            EXPECT_EQ(machine.over(), was_over || action == Action::hold || action == Action::fail);
            if (machine.over()) {
                EXPECT_EQ(machine.due(), TimePoint::max());
            }
        }
    }
}

// --- validity ----------------------------------------------------------------------------------------

TEST(AttemptMachine, lease_counts_from_the_first_sending_under_its_id) {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.timer(start + 1s), Action::ask_fresh);
    EXPECT_EQ(machine.granted(2, {}, start + 1100ms), Action::hold);
    EXPECT_EQ(machine.counted_from(), start);
    EXPECT_TRUE(machine.unsettled());
}

TEST(AttemptMachine, the_store_may_know_better_from_when_it_counts) {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.granted(1, start + 20ms, start + 1s), Action::hold);
    EXPECT_EQ(machine.counted_from(), start + 20ms);
    EXPECT_FALSE(machine.unsettled());
}

/// Whatever repeats of the first call are still on their way: the next one has an id of its own, so that its
/// grant cannot be an older one, counted too late.
TEST(AttemptMachine, after_an_answer_the_next_call_has_a_fresh_id) {
    AttemptMachine machine = waiting();
    EXPECT_EQ(machine.changed(start + 3s), Action::ask);
    EXPECT_EQ(machine.take_next_id(), NextId::fresh);
    EXPECT_EQ(machine.take_next_id(), NextId::same);
    EXPECT_EQ(machine.granted(2, {}, start + 3100ms), Action::hold);
    EXPECT_EQ(machine.counted_from(), start + 3s);
    EXPECT_FALSE(machine.leftover());
}

TEST(AttemptMachine, unanswered_call_is_repeated_under_its_id_and_withdrawn_once_it_was_settled) {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.take_next_id(), NextId::same);
    EXPECT_EQ(machine.failed(1, silent(), start + 10ms), Action::ask_fresh);
    EXPECT_EQ(machine.take_next_id(), NextId::same);
    EXPECT_EQ(machine.queued(2, start + 20ms), Action::nothing);
    EXPECT_EQ(machine.changed(start + 3s), Action::ask);
    EXPECT_EQ(machine.take_next_id(), NextId::fresh_withdraw_old);
    EXPECT_EQ(machine.take_next_id(), NextId::same);
}

TEST(AttemptMachine, late_grant_of_an_earlier_call_is_not_taken_and_left_to_be_withdrawn) {
    AttemptMachine machine = settling();
    EXPECT_EQ(machine.queued(2, start), Action::nothing);
    EXPECT_EQ(machine.granted(1, {}, start + 1ms), Action::nothing);
    EXPECT_TRUE(machine.waiting());
    EXPECT_TRUE(machine.leftover());
}

TEST(AttemptMachine, granted_so_late_that_nothing_is_left_it_asks_anew_and_gives_that_grant_back) {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.granted(1, {}, start + 5700ms), Action::ask);
    EXPECT_EQ(machine.take_next_id(), NextId::fresh_withdraw_old);
    EXPECT_EQ(machine.granted(2, {}, start + 5800ms), Action::hold);
    EXPECT_EQ(machine.counted_from(), start + 5700ms);
}

TEST(AttemptMachine, granted_too_late_with_the_wait_over_it_fails_and_leaves_a_grant_to_withdraw) {
    for (const milliseconds wait : {0ms, 2000ms}) {
        AttemptMachine machine = asking(rules(wait));
        EXPECT_EQ(machine.granted(1, {}, start + 6s), Action::fail);
        EXPECT_EQ(machine.error(), errc::timed_out);
        EXPECT_TRUE(machine.leftover());
    }
    AttemptMachine just_in_time = asking(rules(0ms));
    EXPECT_EQ(just_in_time.granted(1, {}, start + 5700ms - 1ns), Action::hold);
}

// --- waits -------------------------------------------------------------------------------------------

TEST(AttemptMachine, wait_of_0_fails_at_the_first_definite_answer) {
    AttemptMachine contended = asking(rules(0ms));
    EXPECT_EQ(contended.due(), start + 1s);
    EXPECT_EQ(contended.contended(1, 3s, start), Action::fail);
    EXPECT_EQ(contended.error(), errc::contended);
    EXPECT_FALSE(contended.leftover());

    AttemptMachine unreachable = asking(rules(0ms));
    EXPECT_EQ(unreachable.failed(1, refused(), start), Action::fail);
    EXPECT_EQ(unreachable.error(), errc::unavailable);
    EXPECT_FALSE(unreachable.leftover());
}

TEST(AttemptMachine, wait_of_0_is_settled_all_the_same_when_there_is_no_answer) {
    AttemptMachine machine = asking(rules(0ms));
    EXPECT_EQ(machine.timer(start + 1s), Action::ask_fresh);
    EXPECT_EQ(machine.contended(2, {}, start + 1100ms), Action::fail);
    EXPECT_EQ(machine.error(), errc::contended);
    EXPECT_TRUE(machine.leftover());  // the first call may take effect yet
}

/// Behind a release of its own process it waits for no longer than for an answer.
TEST(AttemptMachine, wait_of_0_that_starts_late_has_less_time) {
    AttemptMachine never(rules(0ms), start);
    EXPECT_EQ(never.timer(start + 1s), Action::fail);
    EXPECT_EQ(never.error(), errc::contended);
    AttemptMachine late(rules(0ms), start);
    EXPECT_EQ(late.start(start + 400ms), Action::ask);
    EXPECT_EQ(late.due(), start + 1s);
    AttemptMachine very_late(rules(0ms), start);
    EXPECT_EQ(very_late.start(start + 900ms), Action::ask);
    EXPECT_EQ(very_late.due(), start + 900ms + 250ms);
}

TEST(AttemptMachine, limited_wait_ends_at_its_time_wherever_it_is) {
    AttemptMachine idle(rules(), start);
    EXPECT_EQ(idle.due(), start + 10s);
    EXPECT_EQ(idle.timer(start + 10s), Action::fail);
    EXPECT_EQ(idle.error(), errc::timed_out);
    EXPECT_FALSE(idle.leftover());

    AttemptMachine in_line = waiting();
    EXPECT_EQ(in_line.due(), start + 10s);
    EXPECT_EQ(in_line.timer(start + 10s), Action::withdraw);
    EXPECT_EQ(in_line.due(), start + 10s + 250ms);
    EXPECT_EQ(in_line.withdrawn(Withdrawn::confirmed), Action::fail);
    EXPECT_EQ(in_line.error(), errc::timed_out);
    EXPECT_FALSE(in_line.leftover());

    AttemptMachine heir(rules(), start);
    EXPECT_EQ(heir.inherit(start + 1s), Action::nothing);
    EXPECT_TRUE(heir.waiting());
    EXPECT_EQ(heir.timer(start + 10s), Action::withdraw);
}

/// A process that was stopped past the end of its wait does not begin to ask.
TEST(AttemptMachine, after_its_end_a_wait_does_not_ask_any_more) {
    const TimePoint late = start + 11s;
    AttemptMachine idle(rules(), start);
    EXPECT_EQ(idle.start(late), Action::fail);
    AttemptMachine heir(rules(), start);
    EXPECT_EQ(heir.inherit(late), Action::withdraw);
    AttemptMachine in_line = waiting();
    EXPECT_EQ(in_line.changed(late), Action::withdraw);
    AttemptMachine at_the_poll = polling();
    EXPECT_EQ(at_the_poll.changed(late), Action::fail);
    AttemptMachine queued = asking();
    EXPECT_EQ(queued.queued(1, late), Action::withdraw);
    AttemptMachine contended = asking();
    EXPECT_EQ(contended.contended(1, {}, late), Action::fail);
    EXPECT_EQ(contended.error(), errc::timed_out);
}

TEST(AttemptMachine, call_sent_just_before_the_end_of_the_wait_gets_a_fair_chance) {
    AttemptMachine machine = waiting();
    EXPECT_EQ(machine.changed(start + 9900ms), Action::ask);
    EXPECT_EQ(machine.due(), start + 9900ms + 250ms);
    EXPECT_EQ(machine.granted(2, {}, start + 10100ms), Action::hold);
}

TEST(AttemptMachine, wait_without_limit_goes_on) {
    AttemptMachine machine = asking(endless());
    EXPECT_EQ(machine.due(), start + 1s);
    EXPECT_EQ(machine.queued(1, start), Action::nothing);
    EXPECT_EQ(machine.due(), TimePoint::max());
    EXPECT_EQ(machine.changed(start + 1000h), Action::ask);
    EXPECT_EQ(machine.granted(2, {}, start + 1000h), Action::hold);
}

TEST(AttemptMachine, change_while_asking_is_not_lost) {
    AttemptMachine queued = asking();
    EXPECT_EQ(queued.changed(start), Action::nothing);
    EXPECT_EQ(queued.queued(1, start), Action::ask);
    EXPECT_EQ(queued.queued(2, start), Action::nothing);
    AttemptMachine contended = asking();
    EXPECT_EQ(contended.changed(start), Action::nothing);
    EXPECT_EQ(contended.contended(1, {}, start), Action::ask);
}

TEST(AttemptMachine, without_a_line_it_looks_5_times_a_second_or_when_the_store_says) {
    struct Row {
        std::optional<milliseconds> hint;
        nanoseconds pause;
    };
    for (const Row& row : {Row{{}, 200ms}, Row{60ms, 60ms}, Row{0ms, 10ms}, Row{3s, 200ms}}) {
        AttemptMachine machine = asking();
        EXPECT_EQ(machine.contended(1, row.hint, start), Action::nothing);
        EXPECT_EQ(machine.due(), start + row.pause);
        EXPECT_EQ(machine.timer(machine.due()), Action::ask);
    }
}

// --- no answer ---------------------------------------------------------------------------------------

TEST(AttemptMachine, is_settled_within_half_the_lease_and_at_most_1_s) {
    for (const milliseconds lease : {100ms, 800ms, 6000ms}) {
        AttemptMachine machine = asking(rules(10s, lease));
        const TimePoint first = machine.due();
        const TimePoint end = first + settle_within(lease);
        Action action = machine.timer(first);
        int calls = 0;
        while (!machine.over()) {
            if (action == Action::ask_fresh) ++calls;
            ASSERT_LE(machine.due(), end) << lease.count();
            action = machine.timer(machine.due());
        }
        EXPECT_EQ(action, Action::fail);
        EXPECT_EQ(machine.error(), errc::unknown_outcome);
        EXPECT_EQ(machine.error().fault, Fault::indeterminate);
        EXPECT_TRUE(machine.leftover());
        EXPECT_GE(calls, 2) << lease.count();
    }
}

TEST(AttemptMachine, while_settling_a_store_that_is_away_is_no_answer_either) {
    AttemptMachine machine = settling();
    EXPECT_EQ(machine.failed(2, refused(), start + 10ms), Action::nothing);
    EXPECT_EQ(machine.due(), start + 60ms);
    EXPECT_EQ(machine.timer(start + 60ms), Action::ask_fresh);
    EXPECT_EQ(machine.failed(3, refused(), start + 1s), Action::fail);
    EXPECT_EQ(machine.error(), errc::unknown_outcome);
    EXPECT_TRUE(machine.leftover());
}

TEST(AttemptMachine, while_settling_a_push_changes_nothing_but_is_remembered) {
    AttemptMachine machine = settling();
    EXPECT_EQ(machine.changed(start), Action::nothing);
    EXPECT_EQ(machine.queued(2, start), Action::ask);
    EXPECT_EQ(machine.take_next_id(), NextId::fresh_withdraw_old);
}

TEST(AttemptMachine, ends_of_calls_that_were_given_up_are_ignored) {
    AttemptMachine machine = asking();
    EXPECT_EQ(machine.timer(start + 1s), Action::ask_fresh);
    EXPECT_EQ(machine.queued(1, start + 1s), Action::nothing);
    EXPECT_EQ(machine.contended(1, {}, start + 1s), Action::nothing);
    EXPECT_EQ(machine.failed(1, fatal(), start + 1s), Action::nothing);
    EXPECT_FALSE(machine.waiting());
    EXPECT_EQ(machine.granted(2, {}, start + 1100ms), Action::hold);
}

// --- a store that is away ----------------------------------------------------------------------------

TEST(AttemptMachine, is_patient_with_a_store_that_is_away_for_as_long_as_it_may) {
    AttemptMachine machine = asking(endless());
    TimePoint now = start;
    for (const nanoseconds pause : {50ms, 100ms, 200ms, 400ms, 800ms, 800ms, 800ms, 800ms}) {
        EXPECT_EQ(machine.failed(machine.call(), refused(), now), Action::nothing);
        EXPECT_EQ(machine.due(), now + pause);
        now = machine.due();
        EXPECT_EQ(machine.timer(now), Action::ask);
    }
    EXPECT_EQ(machine.failed(machine.call(), refused(), start + 5s - 1ns), Action::nothing);
    EXPECT_EQ(machine.timer(machine.due()), Action::ask);
    EXPECT_EQ(machine.failed(machine.call(), refused(), machine.due()), Action::fail);
    EXPECT_EQ(machine.error(), errc::unavailable);
    EXPECT_FALSE(machine.leftover());
}

TEST(AttemptMachine, its_patience_begins_anew_with_each_answer) {
    AttemptMachine machine = asking(endless());
    EXPECT_EQ(machine.failed(1, refused(), start), Action::nothing);
    EXPECT_EQ(machine.timer(start + 50ms), Action::ask);
    EXPECT_EQ(machine.queued(2, start + 60ms), Action::nothing);
    EXPECT_EQ(machine.changed(start + 20s), Action::ask);
    EXPECT_EQ(machine.failed(3, refused(), start + 20s), Action::nothing);
    EXPECT_EQ(machine.due(), start + 20s + 50ms);
}

TEST(AttemptMachine, its_patience_may_be_without_limit_or_end_with_the_wait) {
    AttemptRules patient = rules();
    patient.unavailable_after = milliseconds::max();
    AttemptMachine machine = asking(patient);
    EXPECT_EQ(machine.failed(1, refused(), start), Action::nothing);
    EXPECT_EQ(machine.timer(start + 50ms), Action::ask);
    EXPECT_EQ(machine.failed(2, refused(), start + 9990ms), Action::nothing);
    EXPECT_EQ(machine.due(), start + 10s);
    EXPECT_EQ(machine.timer(start + 10s), Action::fail);
    EXPECT_EQ(machine.error(), errc::timed_out);
}

TEST(AttemptMachine, with_a_place_in_line_it_leaves_it_to_be_withdrawn_when_it_gives_up) {
    AttemptMachine impatient = waiting();
    EXPECT_EQ(impatient.changed(start + 1s), Action::ask);
    EXPECT_EQ(impatient.failed(2, refused(), start + 1s), Action::nothing);
    EXPECT_EQ(impatient.timer(start + 1050ms), Action::ask);
    EXPECT_EQ(impatient.failed(3, refused(), start + 6s), Action::fail);
    EXPECT_TRUE(impatient.leftover());
    AttemptMachine refused_for_good = waiting();
    EXPECT_EQ(refused_for_good.changed(start + 1s), Action::ask);
    EXPECT_EQ(refused_for_good.failed(2, fatal(), start + 1s), Action::fail);
    EXPECT_EQ(refused_for_good.error(), errc::unauthorized);
    EXPECT_TRUE(refused_for_good.leftover());
}

// --- stop --------------------------------------------------------------------------------------------

/// The call on its way may be granted: its answer tells what there is to take out.
TEST(AttemptMachine, stopped_while_asking_it_waits_for_the_answer) {
    struct Row {
        std::string_view answer;
        std::function<Action(AttemptMachine&)> feed;
        Action action;
        bool leftover;
    };
    const std::array rows{
        Row{"granted", [](AttemptMachine& m) { return m.granted(1, {}, start); }, Action::withdraw, false},
        Row{"queued", [](AttemptMachine& m) { return m.queued(1, start); }, Action::withdraw, false},
        Row{"contended", [](AttemptMachine& m) { return m.contended(1, {}, start); }, Action::fail, false},
        Row{"refused", [](AttemptMachine& m) { return m.failed(1, refused(), start); }, Action::fail, false},
        Row{"fatal", [](AttemptMachine& m) { return m.failed(1, fatal(), start); }, Action::fail, false},
        Row{"silent", [](AttemptMachine& m) { return m.failed(1, silent(), start); }, Action::withdraw, true},
        Row{"nothing", [](AttemptMachine& m) { return m.timer(start + 1s); }, Action::withdraw, true},
    };
    for (const Row& row : rows) {
        SCOPED_TRACE(row.answer);
        AttemptMachine machine = asking();
        EXPECT_EQ(machine.stop(cancelled(), start), Action::nothing);
        EXPECT_EQ(row.feed(machine), row.action);
        EXPECT_EQ(machine.leftover(), row.leftover);
        if (row.action == Action::withdraw) {
            EXPECT_EQ(machine.withdrawn(Withdrawn::confirmed), Action::fail);
        }
        EXPECT_EQ(machine.error(), errc::cancelled);
    }
}

TEST(AttemptMachine, withdrawal_that_is_not_confirmed_goes_on_behind_the_error) {
    AttemptMachine machine = withdrawing();
    EXPECT_EQ(machine.due(), start + 250ms);
    EXPECT_EQ(machine.timer(start + 250ms), Action::fail);
    EXPECT_EQ(machine.error(), errc::cancelled);
    EXPECT_TRUE(machine.leftover());
    EXPECT_EQ(machine.withdrawn(Withdrawn::confirmed), Action::nothing);
}

TEST(AttemptMachine, stopped_while_settling_it_leaves_what_may_be_there_to_be_withdrawn) {
    AttemptMachine machine = settle_pause();
    EXPECT_EQ(machine.stop(cancelled(), start), Action::fail);
    EXPECT_TRUE(machine.leftover());
}

TEST(AttemptMachine, abandoned_it_is_over_at_once) {
    AttemptMachine machine = asking();
    machine.abandon(cancelled());
    EXPECT_TRUE(machine.over());
    EXPECT_EQ(machine.error(), errc::cancelled);
    EXPECT_EQ(machine.granted(1, {}, start), Action::nothing);
}

}  // namespace
}  // namespace dlock::core
