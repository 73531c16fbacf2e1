// SPDX-License-Identifier: Apache-2.0
#include "core/record.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace dlock::core {
namespace {

using namespace std::chrono_literals;

template <class Id>
Id id(std::uint8_t number) {
    Id made;
    made.bytes.fill(number);
    return made;
}
GrantId attempt(std::uint8_t number) { return id<GrantId>(number); }
TicketId ticket(std::uint8_t number) { return id<TicketId>(number); }

/// One key with a clock that the test moves.
class RecordTest : public testing::Test {
protected:
    AcquireOutcome acquire_now(std::uint8_t number) { return acquire(record, ask(number), time(), floor); }
    AcquireOutcome wait(std::uint8_t number, Standing::AfterGrant after = Standing::AfterGrant::leave) {
        return wait_with(number, number, after);
    }
    AcquireOutcome wait_with(std::uint8_t number, std::uint8_t place,
                             Standing::AfterGrant after = Standing::AfterGrant::leave) {
        AcquireAsk asked = ask(number);
        asked.standing = Standing{.ticket = ticket(place), .lease = 5s, .after_grant = after, .wake = "here"};
        return acquire(record, std::move(asked), time(), floor);
    }
    ReleaseOutcome release_now(std::uint8_t number) {
        return release(record, attempt(number), {}, {}, time());
    }
    ReleaseOutcome withdraw(std::uint8_t number) {
        return release(record, attempt(number), ticket(number), {}, time());
    }
    TicketOutcome keep(std::uint8_t number) { return renew_ticket(record, ticket(number), 5s, now); }
    std::vector<std::uint8_t> line() const {
        std::vector<std::uint8_t> places;
        for (const Ticket& one : record.tickets) places.push_back(one.id.bytes[0]);
        return places;
    }
    /// The one who is woken, if anybody is.
    static std::optional<std::uint8_t> woken(const std::vector<Ticket>& wake) {
        EXPECT_LE(wake.size(), 1U);
        return wake.empty() ? std::nullopt : std::optional(wake.front().id.bytes[0]);
    }

    Record record;
    TimePoint now{100s};
    std::uint64_t wall_us = 1'000'000;
    std::uint64_t floor = 0;

private:
    static AcquireAsk ask(std::uint8_t number) {
        const auto owner = std::make_shared<Owner>();
        owner->service = std::to_string(number);
        return {.attempt = attempt(number), .owner = owner, .lease = 10s};
    }
    StoreTime time() const { return {now, wall_us}; }
};

TEST_F(RecordTest, free_lock_is_granted_with_all_that_is_to_be_shown) {
    EXPECT_EQ(acquire_now(1).what, Acquiring::granted);
    const Holder* holder = live_holder(record, now);
    ASSERT_NE(holder, nullptr);
    EXPECT_EQ(holder->id, attempt(1));
    EXPECT_EQ(holder->owner->service, "1");
    EXPECT_EQ(holder->since, now);
    EXPECT_EQ(holder->expires, now + 10s);
    EXPECT_EQ(holder->lease, 10s);
    EXPECT_EQ(holder->wall_us, wall_us);
    EXPECT_EQ(holder->fence, Fence{1'000'000});
}

TEST_F(RecordTest, held_lock_is_contended_without_a_trace) {
    acquire_now(1);
    const Record before = record;
    EXPECT_EQ(acquire_now(2).what, Acquiring::contended);
    EXPECT_EQ(record, before);
}

TEST_F(RecordTest, grant_ends_exactly_at_its_expiry) {
    acquire_now(1);
    now += 10s - 1ns;
    EXPECT_EQ(acquire_now(2).what, Acquiring::contended);
    now += 1ns;
    EXPECT_EQ(live_holder(record, now), nullptr);
    EXPECT_EQ(acquire_now(2).what, Acquiring::granted);
}

TEST_F(RecordTest, repeated_attempt_gets_its_grant_again_and_no_longer_lease) {
    const Fence first = acquire_now(1).fence;
    const Record before = record;
    now += 4s;
    wall_us += 4'000'000;
    const AcquireOutcome repeat = acquire_now(1);
    EXPECT_EQ(repeat.what, Acquiring::granted);
    EXPECT_EQ(repeat.fence, first);
    EXPECT_EQ(record, before);
}

TEST_F(RecordTest, repeat_after_the_expiry_is_a_new_grant) {
    const Fence first = acquire_now(1).fence;
    now += 10s;
    EXPECT_GT(acquire_now(1).fence, first);
}

TEST_F(RecordTest, repeat_does_not_take_the_place_it_had_left) {
    acquire_now(1);
    wait(2);
    release_now(1);
    wait(2);
    wait(3);
    EXPECT_EQ(wait(2).what, Acquiring::granted);
    EXPECT_EQ(line(), (std::vector<std::uint8_t>{3}));
}

// fence = max(last + 1, floor + 1 only when the key had no record, wall time)
TEST_F(RecordTest, fence_rule) {
    struct Case {
        std::uint64_t last, floor, wall_us, expected;
    };
    for (const Case& one : {
             Case{0, 0, 500, 500},
             Case{0, 900, 500, 901},
             Case{0, 500, 500, 501},
             Case{700, 0, 500, 701},    // the clock went back
             Case{700, 900, 500, 701},  // a floor of other keys does not count
             Case{700, 0, 701, 701},
             Case{700, 0, 800, 800},
             Case{0, 0, 0, 1},
         }) {
        record = Record{.last_fence = one.last};
        floor = one.floor;
        wall_us = one.wall_us;
        EXPECT_EQ(acquire_now(1).fence.value, one.expected)
            << one.last << ' ' << one.floor << ' ' << one.wall_us;
        EXPECT_EQ(record.last_fence, one.expected);
    }
}

TEST_F(RecordTest, fences_rise_through_release_expiry_and_a_clock_that_stands_still) {
    std::uint64_t last = 0;
    for (std::uint8_t number = 1; number < 20; ++number) {
        const AcquireOutcome got = acquire_now(number);
        ASSERT_EQ(got.what, Acquiring::granted);
        EXPECT_GT(got.fence.value, last);
        last = got.fence.value;
        if (number % 2 == 0)
            release_now(number);
        else
            now += 10s;
        wall_us -= 1000;
    }
}

TEST_F(RecordTest, another_kind_is_refused_for_as_long_as_the_key_is_remembered) {
    acquire_now(1);
    release_now(1);
    AcquireAsk asked{.attempt = attempt(2), .mode = Mode::permit, .permits = 2, .lease = 1s};
    EXPECT_EQ(acquire(record, asked, {now, wall_us}, 0).what, Acquiring::kind_differs);
    record = Record{};
    EXPECT_EQ(acquire(record, asked, {now, wall_us}, 0).what, Acquiring::granted);
    EXPECT_EQ(record.kind, Kind::permits);
    EXPECT_EQ(to_string(record.kind), "permits");
}

TEST_F(RecordTest, renewal_counts_from_now_and_may_be_shorter) {
    acquire_now(1);
    now += 9s;
    EXPECT_TRUE(renew_lease(record, attempt(1), 10s, now));
    EXPECT_EQ(record.holders.front().expires, now + 10s);
    EXPECT_TRUE(renew_lease(record, attempt(1), 2s, now));
    EXPECT_EQ(record.holders.front().expires, now + 2s);
    EXPECT_EQ(record.holders.front().lease, 2s);
}

TEST_F(RecordTest, renewal_never_revives_and_never_helps_another) {
    EXPECT_FALSE(renew_lease(record, attempt(1), 10s, now));
    acquire_now(1);
    EXPECT_FALSE(renew_lease(record, attempt(2), 10s, now));
    now += 10s;
    EXPECT_FALSE(renew_lease(record, attempt(1), 10s, now));
    EXPECT_EQ(live_holder(record, now), nullptr);
    acquire_now(2);
    EXPECT_FALSE(renew_lease(record, attempt(1), 10s, now));
}

TEST_F(RecordTest, only_the_owner_releases) {
    acquire_now(1);
    EXPECT_FALSE(release_now(2).released);
    EXPECT_NE(live_holder(record, now), nullptr);
    EXPECT_TRUE(release_now(1).released);
    EXPECT_EQ(live_holder(record, now), nullptr);
    EXPECT_FALSE(release_now(1).released);
}

TEST_F(RecordTest, release_after_the_expiry_was_no_release_but_wakes_the_head) {
    acquire_now(1);
    now += 8s;
    wait(2);
    now += 2s;
    const ReleaseOutcome outcome = release_now(1);
    EXPECT_FALSE(outcome.released);
    EXPECT_EQ(woken(outcome.wake), 2);
}

TEST_F(RecordTest, waiters_are_served_in_order_of_arrival) {
    acquire_now(1);
    for (std::uint8_t number = 2; number < 6; ++number) {
        const AcquireOutcome queued = wait(number);
        EXPECT_EQ(queued.what, Acquiring::queued);
        EXPECT_EQ(queued.ahead, number - 2U);
    }
    for (std::uint8_t number = 2; number < 6; ++number) {
        const ReleaseOutcome released = release_now(static_cast<std::uint8_t>(number - 1));
        ASSERT_EQ(woken(released.wake), number);
        EXPECT_EQ(released.wake.front().wake, "here");
        for (std::uint8_t later = 5; later > number; --later) {
            const AcquireOutcome early = wait(later);
            EXPECT_EQ(early.what, Acquiring::queued);
            EXPECT_EQ(early.ahead, later - number + 0U);
        }
        EXPECT_EQ(wait(number).what, Acquiring::granted);
    }
    EXPECT_TRUE(record.tickets.empty());
}

TEST_F(RecordTest, newcomer_does_not_overtake_though_the_lock_is_free) {
    acquire_now(1);
    wait(2);
    release_now(1);
    EXPECT_EQ(acquire_now(3).what, Acquiring::contended);
    const AcquireOutcome queued = wait(4);
    EXPECT_EQ(queued.what, Acquiring::queued);
    EXPECT_EQ(queued.ahead, 1U);
    EXPECT_EQ(wait(2).what, Acquiring::granted);
}

TEST_F(RecordTest, place_is_kept_when_its_ticket_passes_to_another_attempt) {
    acquire_now(1);
    wait_with(2, 2);
    wait_with(3, 3);
    now += 4s;
    EXPECT_EQ(wait_with(9, 2).ahead, 0U);
    EXPECT_EQ(record.tickets.front().owner->service, "9");
    EXPECT_EQ(record.tickets.front().expires, now + 5s);
    EXPECT_EQ(record.tickets.front().arrival, now - 4s);
    release_now(1);
    EXPECT_EQ(wait_with(9, 2).what, Acquiring::granted);
}

TEST_F(RecordTest, ticket_rejoins_at_the_tail_when_others_wait_behind_it) {
    acquire_now(1);
    wait(2);
    wait(3);
    release_now(1);
    EXPECT_EQ(wait(2, Standing::AfterGrant::rejoin).what, Acquiring::granted);
    EXPECT_EQ(line(), (std::vector<std::uint8_t>{3, 2}));
    const Record before = record;
    EXPECT_EQ(wait(2, Standing::AfterGrant::rejoin).what, Acquiring::granted);  // a repeat
    EXPECT_EQ(record, before);
}

TEST_F(RecordTest, free_lock_may_leave_a_ticket_for_those_behind) {
    EXPECT_EQ(wait(1, Standing::AfterGrant::rejoin).what, Acquiring::granted);
    EXPECT_EQ(line(), (std::vector<std::uint8_t>{1}));
    EXPECT_EQ(wait_with(2, 1).what, Acquiring::queued);
    release_now(1);
    EXPECT_EQ(wait_with(2, 1).what, Acquiring::granted);
    EXPECT_TRUE(record.tickets.empty());
}

TEST_F(RecordTest, any_number_of_dead_waiters_cost_one_ticket_lease_together) {
    acquire_now(1);
    for (std::uint8_t dead = 2; dead < 200; ++dead) wait(dead);
    now += 3s;
    wait(200);
    release_now(1);
    EXPECT_EQ(wait(200).what, Acquiring::queued);
    now += 2s;
    EXPECT_TRUE(keep(200).turn);
    EXPECT_EQ(wait(200).what, Acquiring::granted);
}

TEST_F(RecordTest, dead_waiters_are_dropped_wherever_they_stand) {
    acquire_now(1);
    for (std::uint8_t number = 2; number <= 5; ++number) wait(number);
    now += 4s;
    keep(3);
    keep(5);
    now += 1s;
    drop_expired_tickets(record, now);
    EXPECT_EQ(line(), (std::vector<std::uint8_t>{3, 5}));
}

TEST_F(RecordTest, dead_waiter_that_returns_goes_to_the_tail) {
    acquire_now(1);
    wait(2);
    now += 4s;
    wait(3);
    now += 1s;
    EXPECT_FALSE(keep(2).alive);
    EXPECT_EQ(wait(2).ahead, 1U);
    EXPECT_EQ(line(), (std::vector<std::uint8_t>{3, 2}));
}

TEST_F(RecordTest, ticket_renewal_tells_of_turn_and_holder) {
    EXPECT_FALSE(keep(2).alive);
    acquire_now(1);
    wait(2);
    wait(3);
    now += 1s + 1ns;
    const TicketOutcome waiting = keep(2);
    EXPECT_TRUE(waiting.alive);
    EXPECT_FALSE(waiting.turn);
    EXPECT_EQ(waiting.holder_left, 9000ms);  // rounded up, so that a look then is not too early
    EXPECT_EQ(record.tickets.front().expires, now + 5s);
    release_now(1);
    EXPECT_TRUE(keep(2).turn);
    EXPECT_EQ(keep(2).holder_left, std::nullopt);
    EXPECT_FALSE(keep(3).turn);
}

TEST_F(RecordTest, release_wakes_only_a_live_head) {
    acquire_now(1);
    EXPECT_EQ(woken(release_now(1).wake), std::nullopt);
    acquire_now(2);
    wait(3);
    now += 3s;
    wait(4);
    now += 2s;
    EXPECT_EQ(woken(release_now(2).wake), 4);
    EXPECT_EQ(woken(release_now(2).wake), std::nullopt);  // a repeat wakes nobody
}

TEST_F(RecordTest, withdrawn_head_passes_the_wake_on_when_the_lock_is_free) {
    acquire_now(1);
    for (std::uint8_t number = 2; number <= 4; ++number) wait(number);
    EXPECT_EQ(woken(withdraw(3).wake), std::nullopt);  // not the head
    EXPECT_EQ(woken(withdraw(2).wake), std::nullopt);  // the lock is held
    wait(2);
    release_now(1);
    EXPECT_EQ(woken(withdraw(4).wake), 2);
    EXPECT_EQ(woken(withdraw(2).wake), std::nullopt);  // nobody is left
    EXPECT_TRUE(record.tickets.empty());
}

TEST_F(RecordTest, withdrawing_an_attempt_that_was_granted_unseen_frees_both) {
    acquire_now(1);
    wait(2);
    wait(3);
    release_now(1);
    wait(2, Standing::AfterGrant::rejoin);
    const ReleaseOutcome outcome = withdraw(2);
    EXPECT_TRUE(outcome.released);
    EXPECT_EQ(woken(outcome.wake), 3);
    EXPECT_EQ(line(), (std::vector<std::uint8_t>{3}));
}

TEST_F(RecordTest, forced_release_ends_the_grant_that_was_seen_and_no_other) {
    EXPECT_EQ(force_release(record, public_id(attempt(1)), now).forced, Forced::already_free);
    acquire_now(1);
    wait(2);
    EXPECT_EQ(force_release(record, public_id(attempt(2)), now).forced, Forced::moved_on);
    EXPECT_EQ(force_release(record, "", now).forced, Forced::moved_on);
    const ForceOutcome outcome = force_release(record, public_id(attempt(1)), now);
    EXPECT_EQ(outcome.forced, Forced::done);
    EXPECT_EQ(woken(outcome.wake), 2);
    EXPECT_FALSE(renew_lease(record, attempt(1), 10s, now));
    EXPECT_EQ(wait(2).what, Acquiring::granted);
    now += 10s;
    EXPECT_EQ(force_release(record, public_id(attempt(2)), now).forced, Forced::already_free);
}

TEST_F(RecordTest, forgetting_is_due_after_the_last_use_grant_or_ticket) {
    acquire_now(1);
    EXPECT_EQ(idle_since(record), now + 10s);
    now += 8s;
    wait(2);
    EXPECT_EQ(idle_since(record), now + 5s);
    withdraw(2);
    release_now(1);
    EXPECT_EQ(idle_since(record), now);
}

}  // namespace
}  // namespace dlock::core
