// SPDX-License-Identifier: Apache-2.0
/// Leaders in several processes.
#include "conformance/fixture.hpp"

namespace dlock::conformance {

namespace {

constexpr milliseconds term_lease = 1s;

std::string campaign(const Key& key) {
    return "campaign c " + std::to_string(term_lease.count()) + ' ' + key.text();
}

/// The fence of the next election, or nothing.
std::optional<std::uint64_t> elected(Worker& candidate, milliseconds limit = patience) {
    const auto line = candidate.expect("elected c", limit);
    return line ? std::optional(std::stoull(*line)) : std::nullopt;
}

}  // namespace

TEST_P(Conformance, a_killed_leader_is_followed_after_one_lease) {
    DLOCK_NEEDS(Need::processes);
    const auto first = worker();
    const auto second = worker();
    first->send(campaign(key_));
    const auto fence = elected(*first);
    ASSERT_TRUE(fence) << first->unread();
    second->send(campaign(key_));
    first->kill();
    const TimePoint killed = BootClock::now();
    const auto next = elected(*second);
    ASSERT_TRUE(next) << second->unread();
    // Its lease, the look of a waiter at its end (up to 2 s where the store keeps no line), a busy machine.
    EXPECT_LT(since(killed), term_lease + 4s);
    if (has(Need::fences)) {
        EXPECT_GT(*next, *fence);
    }
}

TEST_P(Conformance, a_stopped_leader_is_followed_and_ends_its_term_when_it_goes_on) {
    DLOCK_NEEDS(Need::processes);
    const auto first = worker();
    const auto second = worker();
    first->send(campaign(key_));
    ASSERT_TRUE(elected(*first)) << first->unread();
    second->send(campaign(key_));
    first->stop();
    ASSERT_TRUE(elected(*second)) << second->unread();
    EXPECT_FALSE(first->said("ended c"));
    first->resume();
    ASSERT_TRUE(first->expect("ended c")) << first->unread();
    EXPECT_FALSE(first->said("elected c"));
    ASSERT_TRUE(second->ask("stop c", "stopped c"));
    EXPECT_TRUE(second->said("ended c"));
    EXPECT_TRUE(elected(*first)) << "it did not stand again: " << first->unread();
}

TEST_P(Conformance, a_leader_that_resigns_hands_over_and_stands_again) {
    const auto first = worker();
    const auto second = worker();
    first->send(campaign(key_));
    ASSERT_TRUE(elected(*first)) << first->unread();
    second->send(campaign(key_));
    const Client client = open();
    if (has(Need::lines)) {
        for (const auto begun = BootClock::now(); client.show(key_)->waiter_count == 0;)
            ASSERT_LT(since(begun), patience);
        first->send("resign c");
        ASSERT_TRUE(first->expect("ended c")) << first->unread();
        ASSERT_TRUE(elected(*second)) << second->unread();
        EXPECT_FALSE(first->said("elected c"));
    }
    ASSERT_TRUE(second->ask("stop c", "stopped c"));
    if (has(Need::lines)) {
        ASSERT_TRUE(elected(*first)) << first->unread();
    }
    ASSERT_TRUE(first->ask("stop c", "stopped c"));
    EXPECT_TRUE(first->said("ended c"));
    expect_free(client, key_, patience);
}

}  // namespace dlock::conformance
