// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "conformance/fixture.hpp"

namespace dlock::conformance {

namespace {

/// What a worker answered to "held".
struct Held {
    bool yes = false;
    TimePoint usable_until;
    TimePoint at;

    explicit Held(const std::string& answer) {
        std::istringstream words(answer);
        std::string yes_or_no;
        TimePoint::rep until = 0, now = 0;
        words >> yes_or_no >> until >> now;
        yes = yes_or_no == "yes";
        usable_until = TimePoint(BootClock::duration(until));
        at = TimePoint(BootClock::duration(now));
    }
};

/// Stores count in milliseconds, and not from the same one as we do.
constexpr milliseconds rounding = 2ms;

}  // namespace

TEST_P(Conformance, a_killed_holders_lock_is_free_one_lease_after_its_last_renewal) {
    DLOCK_NEEDS(Need::processes);
    constexpr milliseconds lease = 2s;
    const Client client = open();
    const auto holder = worker();
    const auto fence = holder->acquire("a", lease, key_);
    ASSERT_TRUE(fence) << holder->unread();
    ASSERT_TRUE(holder->expect("event renewed")) << holder->unread();
    const Held last(holder->ask("held a", "held a").value());
    ASSERT_TRUE(last.yes);
    holder->kill();
    const TimePoint killed = BootClock::now();

    const Lease next = take(client, key_, options(5s, patience));
    const TimePoint granted = BootClock::now();
    EXPECT_GE(granted, last.usable_until + margin(lease) - rounding) << "given away before the lease ended";
    EXPECT_LT(granted, killed + lease + 5s);
    if (has(Need::fences)) {
        EXPECT_GT(next.fence()->value, *fence);
    }
}

TEST_P(Conformance, a_stopped_holder_finds_its_lock_lost_and_leaves_the_next_one_alone) {
    DLOCK_NEEDS(Need::processes);
    const Client client = open();
    const auto holder = worker();
    const auto fence = holder->acquire("a", 600ms, key_);
    ASSERT_TRUE(fence) << holder->unread();
    holder->stop();
    Lease next = take(client, key_, options(30s, patience));
    if (has(Need::fences)) {
        EXPECT_GT(next.fence()->value, *fence);
    }

    holder->send("held a");  // what its work asks next, in the middle of the step it was stopped in
    holder->resume();
    const auto answer = holder->expect("held a");
    ASSERT_TRUE(answer) << holder->unread();
    EXPECT_FALSE(Held(*answer).yes);
    EXPECT_TRUE(holder->expect("lost a")) << holder->unread();
    const auto renewed = holder->ask("renew a", "renewed a");
    EXPECT_EQ(renewed, "lost");
    const auto released = holder->ask("release a", "released a");
    EXPECT_TRUE(released == "not_owner" || released == "lost") << released.value_or("no answer");

    EXPECT_TRUE(next.held());
    EXPECT_TRUE(next.renew());
    EXPECT_EQ(client.show(key_).value().holders.at(0).public_id, next.id().public_id());
    EXPECT_TRUE(next.release());
}

TEST_P(Conformance, a_lease_that_nobody_renews_ends_by_itself_and_not_before) {
    constexpr milliseconds lease = 700ms;
    const Client holder = open();
    const Client next = open();
    const Lease old = take(holder, key_, options(lease, 0ms, Renewing::manual));
    LossWatch loss(old);
    const TimePoint usable_until = old.usable_until();
    const auto fence = expect_free(next, key_, patience);
    const TimePoint freed = BootClock::now();
    EXPECT_GE(freed, usable_until + margin(lease) - rounding);
    EXPECT_FALSE(old.held());
    const auto told = loss.wait();
    ASSERT_TRUE(told);
    EXPECT_GE(*told, usable_until) << "told lost while it could be used";
    expect_higher(old.fence(), fence);
}

TEST_P(Conformance, a_renewal_by_hand_gives_a_whole_lease_from_its_sending) {
    constexpr milliseconds lease = 900ms;
    const Client client = open();
    const Client other = open();
    Lease held = take(client, key_, options(lease, 0ms, Renewing::manual));
    TimePoint before = held.usable_until();
    for (int i = 0; i < 4; ++i) {
        const TimePoint sent = BootClock::now();
        ASSERT_TRUE(held.renew());
        EXPECT_GT(held.usable_until(), before);
        EXPECT_GE(held.usable_until(), sent + lease - margin(lease));
        EXPECT_LE(held.usable_until(), BootClock::now() + lease - margin(lease));
        before = held.usable_until();
    }
    expect_contended(other, key_);
    expect_free(other, key_, patience);
    EXPECT_GE(BootClock::now(), before + margin(lease) - rounding);
}

TEST_P(Conformance, a_held_lease_is_renewed_past_several_of_its_lengths) {
    const auto events = std::make_shared<Recorder>();
    const Client holder = open({}, events);
    const Client other = open();
    const TimePoint start = BootClock::now();
    Lease lease = take(holder, key_, options(1500ms));
    const LossWatch loss(lease);
    while (since(start) < 3500ms) {
        const auto renewed = events->count(Event::Kind::renewed);
        ASSERT_TRUE(events->wait_for(Event::Kind::renewed, renewed + 1));
        ASSERT_TRUE(lease.held());
        expect_contended(other, key_);
    }
    EXPECT_FALSE(loss.told());
    EXPECT_TRUE(lease.release());
    expect_free(other, key_, 0ms);
}

}  // namespace dlock::conformance
