// SPDX-License-Identifier: Apache-2.0
/// Readers and writers, permits, and what a release leaves behind.
#include <vector>

#include <gtest/gtest.h>

#include "core/record.hpp"

namespace dlock::core {
namespace {

using namespace std::chrono_literals;
using enum Acquiring;
using Numbers = std::vector<int>;

/// One key with a clock that the test moves. Number n is attempt n with ticket n.
class RecordModesTest : public testing::Test {
protected:
    template <class Id>
    static Id id(int number) {
        Id made;
        made.bytes.fill(static_cast<std::uint8_t>(number));
        return made;
    }
    AcquireAsk ask(int number, Mode mode) const {
        AcquireAsk asked{.attempt = id<GrantId>(number), .mode = mode, .lease = 10s};
        if (mode == Mode::permit) asked.permits = permits;
        return asked;
    }
    Acquiring acquire_now(int number, Mode mode) {
        return acquire(record, ask(number, mode), time(), 0).what;
    }
    Acquiring wait(int number, Mode mode) {
        AcquireAsk asked = ask(number, mode);
        asked.standing = Standing{.ticket = id<TicketId>(number), .lease = 5s};
        return acquire(record, asked, time(), 0).what;
    }
    AcquireOutcome convert(int number, Mode to, Fence from) {
        AcquireAsk asked = ask(number, to);
        asked.converts = from;
        return acquire(record, asked, time(), 0);
    }
    Numbers release_now(int number, const After& after = {}) {
        return numbers(release(record, id<GrantId>(number), {}, after, time()).wake);
    }
    Numbers leave(int number) {
        return numbers(release(record, id<GrantId>(number), id<TicketId>(number), {}, time()).wake);
    }
    static Numbers numbers(const std::vector<Ticket>& tickets) {
        Numbers made;
        for (const Ticket& ticket : tickets) made.push_back(ticket.id.bytes[0]);
        return made;
    }
    Fence fence_of(int number) const {
        for (const Holder& holder : record.holders)
            if (holder.id == id<GrantId>(number)) return holder.fence;
        return {};
    }
    StoreTime time() const { return {now, wall_us}; }

    Record record;
    TimePoint now{100s};
    std::uint64_t wall_us = 1'000'000;
    std::uint32_t permits = 2;
};

TEST_F(RecordModesTest, readers_hold_together_and_each_has_a_higher_fence) {
    EXPECT_EQ(acquire_now(1, Mode::shared), granted);
    EXPECT_EQ(acquire_now(2, Mode::shared), granted);
    EXPECT_LT(fence_of(1), fence_of(2));
    EXPECT_EQ(acquire_now(3, Mode::write), contended);
    release_now(1);
    EXPECT_EQ(acquire_now(3, Mode::write), contended);
    release_now(2);
    EXPECT_EQ(acquire_now(3, Mode::write), granted);
    EXPECT_EQ(acquire_now(4, Mode::shared), contended);
    EXPECT_EQ(acquire_now(4, Mode::write), contended);
}

TEST_F(RecordModesTest, waiting_writer_stops_later_readers_and_comes_after_the_last_reader) {
    acquire_now(1, Mode::shared);
    acquire_now(2, Mode::shared);
    EXPECT_EQ(wait(3, Mode::write), queued);
    EXPECT_EQ(acquire_now(4, Mode::shared), contended);
    EXPECT_EQ(wait(4, Mode::shared), queued);
    EXPECT_EQ(release_now(1), Numbers{});
    EXPECT_EQ(release_now(2), Numbers{3});
    EXPECT_EQ(wait(4, Mode::shared), queued);
    EXPECT_EQ(wait(3, Mode::write), granted);
    EXPECT_EQ(release_now(3), Numbers{4});
}

TEST_F(RecordModesTest, writer_wakes_the_run_of_readers_at_the_head_and_no_more) {
    acquire_now(1, Mode::write);
    for (const int number : {2, 3, 4}) wait(number, Mode::shared);
    wait(5, Mode::write);
    wait(6, Mode::shared);
    EXPECT_EQ(release_now(1), (Numbers{2, 3, 4}));
    EXPECT_EQ(wait(4, Mode::shared), granted) << "in any order among themselves";
    EXPECT_EQ(wait(2, Mode::shared), granted);
    EXPECT_EQ(wait(6, Mode::shared), queued);
    EXPECT_EQ(wait(3, Mode::shared), granted);
}

TEST_F(RecordModesTest, writer_that_gives_up_lets_the_readers_behind_it_in) {
    acquire_now(1, Mode::shared);
    wait(2, Mode::write);
    wait(3, Mode::shared);
    EXPECT_EQ(leave(2), Numbers{3});
    EXPECT_EQ(wait(3, Mode::shared), granted);
}

TEST_F(RecordModesTest, dead_writer_in_line_holds_readers_up_for_its_ticket_lease_only) {
    acquire_now(1, Mode::shared);
    wait(2, Mode::write);
    now += 5s;
    EXPECT_EQ(acquire_now(3, Mode::shared), granted);
}

TEST_F(RecordModesTest, dead_readers_end_one_by_one_with_their_own_leases) {
    acquire_now(1, Mode::shared);
    now += 6s;
    acquire_now(2, Mode::shared);
    now += 4s;
    EXPECT_FALSE(renew_lease(record, id<GrantId>(1), 10s, now)) << "never revived";
    EXPECT_EQ(acquire_now(3, Mode::write), contended);
    EXPECT_TRUE(renew_lease(record, id<GrantId>(2), 1s, now));
    now += 1s;
    EXPECT_EQ(acquire_now(3, Mode::write), granted);
    EXPECT_EQ(record.holders.size(), 1U);
}

TEST_F(RecordModesTest, downgrade_lets_waiting_readers_in_and_keeps_the_fence) {
    acquire_now(1, Mode::write);
    const Fence fence = fence_of(1);
    wait(2, Mode::shared);
    wait(3, Mode::write);
    const AcquireOutcome done = convert(1, Mode::shared, fence);
    EXPECT_EQ(done.what, granted);
    EXPECT_EQ(done.fence, fence);
    EXPECT_EQ(numbers(done.wake), Numbers{2});
    EXPECT_EQ(convert(1, Mode::shared, fence).what, granted) << "safe to repeat";
}

TEST_F(RecordModesTest, upgrade_only_of_the_single_reader_with_a_fence_above_all_others) {
    acquire_now(1, Mode::shared);
    acquire_now(2, Mode::shared);
    EXPECT_EQ(convert(1, Mode::write, fence_of(1)).what, contended);
    EXPECT_EQ(convert(2, Mode::write, fence_of(2)).what, contended) << "both at once: neither waits";
    const Fence seen = fence_of(2);
    release_now(2);
    wait(3, Mode::write);
    const AcquireOutcome up = convert(1, Mode::write, fence_of(1));
    EXPECT_EQ(up.what, granted) << "before those in line, who wait for it anyway";
    EXPECT_GT(up.fence, seen);
    EXPECT_EQ(acquire_now(4, Mode::shared), contended);
}

TEST_F(RecordModesTest, late_copies_of_calls_change_no_mode_back) {
    acquire_now(1, Mode::shared);
    const Fence first = fence_of(1);
    convert(1, Mode::write, first);
    const Fence second = fence_of(1);
    EXPECT_EQ(acquire_now(1, Mode::shared), granted) << "the first acquire once more";
    EXPECT_EQ(acquire_now(2, Mode::shared), contended) << "still the writer";
    convert(1, Mode::shared, second);
    convert(1, Mode::write, second);
    EXPECT_EQ(convert(1, Mode::shared, second).what, contended) << "the downgrade before once more";
    EXPECT_EQ(acquire_now(2, Mode::shared), contended) << "still the writer";
    now += 10s;
    EXPECT_EQ(convert(1, Mode::shared, fence_of(1)).what, lost);
}

TEST_F(RecordModesTest, never_more_than_the_permits_and_waiters_in_order) {
    EXPECT_EQ(acquire_now(1, Mode::permit), granted);
    EXPECT_EQ(acquire_now(2, Mode::permit), granted);
    EXPECT_EQ(acquire_now(3, Mode::permit), contended);
    for (const int number : {4, 5, 6}) EXPECT_EQ(wait(number, Mode::permit), queued);
    EXPECT_EQ(release_now(1), Numbers{4}) << "one permit wakes one";
    EXPECT_EQ(acquire_now(3, Mode::permit), contended) << "nobody overtakes the line";
    EXPECT_EQ(release_now(2), (Numbers{4, 5}));
    EXPECT_EQ(wait(5, Mode::permit), granted) << "there is one for each of the first two";
    EXPECT_EQ(wait(6, Mode::permit), queued);
    EXPECT_EQ(wait(4, Mode::permit), granted);
}

TEST_F(RecordModesTest, dead_holders_give_their_permits_back) {
    acquire_now(1, Mode::permit);
    acquire_now(2, Mode::permit);
    now += 10s;
    EXPECT_EQ(acquire_now(3, Mode::permit), granted);
    EXPECT_EQ(acquire_now(4, Mode::permit), granted);
    EXPECT_EQ(acquire_now(5, Mode::permit), contended);
    EXPECT_EQ(record.holders.size(), 2U);
}

TEST_F(RecordModesTest, another_number_of_permits_is_refused_until_it_is_configured) {
    acquire_now(1, Mode::permit);
    permits = 3;
    EXPECT_EQ(acquire_now(2, Mode::permit), limit_differs);
    permits = 0;
    EXPECT_EQ(acquire_now(2, Mode::permit), granted) << "as configured";
    using What = ConfigureOutcome::What;
    EXPECT_EQ(configure(record, 3, 1, now).what, What::differs);
    EXPECT_EQ(configure(record, 3, 2, now).what, What::changed);
    permits = 3;
    EXPECT_EQ(acquire_now(3, Mode::permit), granted);
    EXPECT_EQ(configure(record, 1, {}, now).permits, 1U) << "what is out stays out";
    permits = 1;
    release_now(1);
    release_now(2);
    EXPECT_EQ(acquire_now(4, Mode::permit), contended);
    release_now(3);
    EXPECT_EQ(acquire_now(4, Mode::permit), granted);
}

TEST_F(RecordModesTest, raising_the_number_wakes_as_many_as_come_in) {
    acquire_now(1, Mode::permit);
    acquire_now(2, Mode::permit);
    for (const int number : {3, 4, 5}) wait(number, Mode::permit);
    EXPECT_EQ(numbers(configure(record, 4, {}, now).wake), (Numbers{3, 4}));
}

TEST_F(RecordModesTest, configured_key_is_never_forgotten_and_an_unknown_number_is_no_number) {
    permits = 0;
    EXPECT_EQ(acquire_now(1, Mode::permit), limit_differs);
    record = {};
    configure(record, 2, 0, now);
    EXPECT_EQ(idle_since(record), TimePoint::max());
    EXPECT_EQ(acquire_now(1, Mode::permit), granted);
    EXPECT_EQ(configure(record, 0, {}, now).permits, 2U);
    EXPECT_LT(idle_since(record), TimePoint::max());
    EXPECT_EQ(acquire_now(2, Mode::exclusive), kind_differs);
}

TEST_F(RecordModesTest, hold_off_keeps_the_lock_back_and_nobody_renews_or_releases_it) {
    acquire_now(1, Mode::exclusive);
    wait(2, Mode::exclusive);
    EXPECT_EQ(release_now(1, {.hold_off = 3s}), Numbers{});
    EXPECT_EQ(wait(2, Mode::exclusive), queued);
    EXPECT_EQ(renew_ticket(record, id<TicketId>(2), 5s, now).holder_left, 3000ms);
    EXPECT_FALSE(renew_lease(record, id<GrantId>(1), 10s, now));
    EXPECT_EQ(release_now(1), Numbers{}) << "a repeated release frees nothing";
    now += 3s;
    EXPECT_EQ(wait(2, Mode::exclusive), granted);
}

TEST_F(RecordModesTest, result_is_told_to_those_who_want_one_until_its_time_is_over) {
    acquire_now(1, Mode::exclusive);
    release_now(1, {.result = "42", .keep = 60s});
    AcquireAsk wants = ask(2, Mode::exclusive);
    wants.results = AcquireAsk::Results::want;
    EXPECT_EQ(acquire(record, wants, time(), 0).what, done);
    EXPECT_EQ(record.done->result, "42");
    EXPECT_EQ(acquire_now(3, Mode::exclusive), granted) << "others do not ask for one";
    release_now(3);
    now += 60s;
    EXPECT_EQ(acquire(record, wants, time(), 0).what, granted);
}

TEST_F(RecordModesTest, late_release_of_an_ended_grant_leaves_no_result) {
    acquire_now(1, Mode::exclusive);
    now += 10s;
    release_now(1, {.hold_off = 3s, .result = "42", .keep = 60s});
    EXPECT_FALSE(record.done);
    EXPECT_EQ(acquire_now(2, Mode::exclusive), granted);
}

}  // namespace
}  // namespace dlock::core
