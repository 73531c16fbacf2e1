// SPDX-License-Identifier: Apache-2.0
/// What the simulation found about calls whose answer is late, lost or doubled.
#include <gtest/gtest.h>

#include "regress/by_hand.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;
using store::Released;
using store::Renewal;
using testing::ByHand;

store::AcquireAnswer queued() { return store::Queued{.holder = {}, .place = 1}; }
store::AcquireAnswer granted() { return store::Granted{.fence = Fence{7}, .handle = {}, .counted_from = {}}; }

/// How many of the next releases name the ticket or attempt, each confirmed with "nothing there".
template <class Wanted>
int count_releases(ByHand& hand, Wanted wanted) {
    int count = 0;
    for (int i = 0; i < 40; ++i) {
        hand.run(100ms);
        while (!hand.releases.empty()) {
            const auto release = hand.next_release();
            if (wanted(release.request)) ++count;
            release.answer(Released::not_owner);
        }
    }
    return count;
}

}  // namespace

/// An acquire was answered "contended", and repeated by the network it was granted all the same. The next
/// look went under the same id, was told of that grant, and counted its lease from its own, later sending.
TEST(Regress, an_acquire_after_an_answer_never_shares_its_id) {
    store::Capabilities without_lines;
    without_lines.lines = false;
    ByHand hand(without_lines);
    const auto outcome = hand.acquire(5s);
    const auto first = hand.next_acquire();
    first.answer(store::Contended{});
    hand.run(300ms);
    const auto second = hand.next_acquire();
    EXPECT_NE(first.request.attempt, second.request.attempt);
    second.answer(granted());
    EXPECT_TRUE(outcome->value());
}

/// The head of the local queue gave up, its place was kept for the one behind; who gave up a moment later.
/// The place stayed in line for its 5 s, in front of everybody else.
TEST(Regress, the_last_of_two_waiters_takes_their_place_along) {
    ByHand hand;
    const auto first = hand.acquire(1000ms);
    const auto ask = hand.next_acquire();
    ask.answer(queued());
    const auto second = hand.acquire(1050ms);
    hand.run(1020ms);
    const auto without_ticket = hand.next_release();
    EXPECT_FALSE(without_ticket.request.ticket);
    hand.run(100ms);
    ASSERT_TRUE(second->has_value());
    without_ticket.answer(Released::not_owner);
    ASSERT_TRUE(first->has_value());
    const auto ticket = ask.request.place.ticket;
    EXPECT_GE(count_releases(hand, [&](const auto& request) { return request.ticket == ticket; }), 1);
}

/// The first call had no answer, the second was granted. Late, the first still took a place in line, and
/// after the release it took the lock again, both for nobody.
TEST(Regress, an_acquire_without_answer_is_taken_out_again_after_the_grant_and_after_the_release) {
    ByHand hand;
    const auto outcome = hand.acquire(5s);
    const auto lost = hand.next_acquire();
    hand.run(1100ms);
    hand.next_acquire().answer(granted());
    ASSERT_TRUE(outcome->has_value() && outcome->value());
    const auto ticket = lost.request.place.ticket;
    EXPECT_GE(count_releases(hand, [&](const auto& request) { return request.ticket == ticket; }), 3);

    (**outcome)->start_release([](const Result<void>&) {}, Lease::Deliver::direct);
    const auto attempt = lost.request.attempt;
    EXPECT_GE(count_releases(hand, [&](const auto& request) { return request.attempt == attempt; }), 3);
}

/// "Contended" from the second call said nothing about the first, which had no answer and was granted later.
TEST(Regress, a_wait_that_ends_after_a_call_without_answer_is_taken_out_too) {
    ByHand hand;
    const auto outcome = hand.acquire(0ms);
    const auto lost = hand.next_acquire();
    hand.run(1100ms);
    hand.next_acquire().answer(store::Contended{});
    ASSERT_TRUE(outcome->has_value());
    EXPECT_EQ(outcome->value().error(), errc::contended);
    const auto attempt = lost.request.attempt;
    EXPECT_GE(count_releases(hand, [&](const auto& request) { return request.attempt == attempt; }), 3);
}

/// A waiter that came while the one before it was taken out used the same ticket, and the withdrawal on its
/// way took it out of the line again. And the answer to a look of before made it never look again.
TEST(Regress, who_comes_during_a_withdrawal_has_a_place_of_its_own_and_looks_after_it) {
    ByHand hand;
    const auto first = hand.acquire(1s);
    const auto ask = hand.next_acquire();
    ask.answer(queued());
    hand.run(100ms);
    const auto look = hand.next_renew();
    hand.run(1s);
    const auto withdrawal = hand.next_release();
    EXPECT_EQ(withdrawal.request.ticket, ask.request.place.ticket);
    const auto second = hand.acquire(forever);
    look.answer({{.renewal = Renewal::renewed, .turn = false, .holder_left = 60ms, .detail = {}}});
    hand.run(100ms);
    withdrawal.answer(Released::not_owner);
    ASSERT_TRUE(first->has_value());

    const auto next = hand.next_acquire();
    EXPECT_NE(next.request.place.ticket, ask.request.place.ticket);
    next.answer(queued());
    hand.renews.clear();
    hand.run(2100ms);
    ASSERT_FALSE(hand.renews.empty());
    EXPECT_EQ(std::get<store::TicketId>(hand.renews.back().request.front().id), next.request.place.ticket);
    EXPECT_FALSE(second->has_value());
}

}  // namespace dlock
