// SPDX-License-Identifier: Apache-2.0
/// Permits: n of m at a time.
#include <future>
#include <thread>

#include "conformance/fixture.hpp"
#include "support/shared_counter.hpp"

namespace dlock::conformance {

namespace {

std::string refusal(const Result<Lease>& got) { return got ? "granted" : word(got.error()); }

std::vector<Lease> take_permits(const Client& client, const Key& key, std::uint32_t permits,
                                std::size_t count) {
    std::vector<Lease> taken;
    for (std::size_t i = 0; i < count; ++i)
        taken.push_back(client.semaphore(key, permits).try_acquire(options(30s, patience)).value());
    return taken;
}

}  // namespace

TEST_P(Conformance, never_more_holders_than_permits_and_another_number_is_refused) {
    DLOCK_NEEDS(Need::modes);
    const Client one = open();
    const Client two = open();
    auto taken = take_permits(one, key_, 3, 2);
    taken.push_back(two.semaphore(key_, 3).try_acquire(options(30s)).value());
    expect_higher(taken[0].fence(), taken[1].fence());
    expect_higher(taken[1].fence(), taken[2].fence());
    EXPECT_EQ(refusal(two.semaphore(key_, 3).try_acquire(options(30s))), "contended");
    const LockInfo info = one.show(key_).value();
    EXPECT_EQ(info.kind, "permits");
    EXPECT_EQ(info.permits, 3U);
    EXPECT_EQ(info.holders.size(), 3U);

    const auto differs = two.semaphore(key_, 4).try_acquire(options(30s));
    ASSERT_EQ(refusal(differs), "limit_differs");
    EXPECT_NE(differs.error().detail.find("3, not 4"), std::string::npos) << differs.error().detail;
    EXPECT_EQ(refusal(two.semaphore(key_, Semaphore::most + 1).try_acquire()), "invalid_argument");
    EXPECT_EQ(refusal(two.semaphore(Key("new"), Semaphore::as_configured).try_acquire()), "limit_differs");
    EXPECT_EQ(refusal(two.mutex(key_).try_acquire(options(30s))), "limit_differs");
    ASSERT_TRUE(taken[1].release());
    EXPECT_EQ(refusal(two.semaphore(key_, 3).try_acquire(options(30s))), "granted");
}

TEST_P(Conformance, waiters_for_a_permit_are_served_in_order_and_one_release_wakes_one) {
    DLOCK_NEEDS(Need::modes, Need::lines);
    const auto plan = std::make_shared<FaultPlan>();
    const Client client = open_faulty(plan);
    auto taken = take_permits(client, key_, 2, 2);
    std::mutex mutex;
    std::vector<int> order;
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 8; ++i) {
        waiters.emplace_back([&, i] {
            auto got = client.semaphore(key_, 2).try_acquire(options(30s, patience));
            const std::lock_guard lock(mutex);
            if (got) order.push_back(i);
        });
        ASSERT_TRUE(stand_in_line(client, key_, static_cast<std::size_t>(i) + 1));
    }
    EXPECT_EQ(refusal(client.semaphore(key_, 2).try_acquire(options(30s))), "contended") << "no overtaking";
    taken.erase(taken.begin());  // one goes from hand to hand
    for (auto& waiter : waiters) waiter.join();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_P(Conformance, full_capacity_comes_back_after_holders_were_killed_and_never_more) {
    DLOCK_NEEDS(Need::modes, Need::processes);
    constexpr int permits = 3;
    const std::string file = (folder_.path() / "counter").string();
    const auto share = "share 20 2000 " + file + " " + key_.text();
    std::vector<std::unique_ptr<Worker>> busy;
    for (int i = 0; i < 4; ++i) {
        busy.push_back(worker());
        busy.back()->ask("as permit 3", "as");
        busy.back()->send(share);
    }
    for (int i = 0; i < permits; ++i) {
        const auto victim = worker();
        victim->ask("as permit 3", "as");
        victim->send("acquire a 500 forever automatic " + key_.text());
        ASSERT_TRUE(victim->expect("granted a")) << victim->unread();
        victim->kill();
    }
    for (const auto& one : busy) EXPECT_TRUE(one->expect("loaded 20", patience * 2)) << one->unread();
    const testing::SharedCounter counter(file);
    EXPECT_EQ(counter.overlaps(), 0U);
    const Client client = open();
    const auto all = take_permits(client, key_, permits, permits);
    EXPECT_EQ(refusal(client.semaphore(key_, permits).try_acquire(options(30s))), "contended");
}

TEST_P(Conformance, the_number_of_permits_is_changed_live_and_revokes_none) {
    DLOCK_NEEDS(Need::modes, Need::lines);
    const Client client = open();
    auto taken = take_permits(client, key_, 2, 2);
    auto later = std::async(std::launch::async, [&] {
        return client.semaphore(key_, Semaphore::as_configured).try_acquire(options(30s, patience));
    });
    ASSERT_TRUE(stand_in_line(client, key_, 1));
    EXPECT_EQ(word(client.configure(key_, 3, 7).error()), "limit_differs");
    EXPECT_EQ(client.configure(key_, 3, 2).value(), 3U);
    auto third = later.get();
    ASSERT_TRUE(third) << third.error().message();
    EXPECT_EQ(refusal(client.semaphore(key_, 2).try_acquire(options(30s))), "limit_differs");

    EXPECT_EQ(client.configure(key_, 1).value(), 1U);
    for (const Lease& lease : taken) EXPECT_TRUE(lease.held());
    ASSERT_TRUE(taken[0].renew()) << "what is out stays out";
    taken.clear();
    EXPECT_EQ(refusal(client.semaphore(key_, 1).try_acquire(options(30s, 300ms))), "timed_out");
    ASSERT_TRUE(third->release());
    EXPECT_EQ(refusal(client.semaphore(key_, 1).try_acquire(options(30s, patience))), "granted");
    EXPECT_EQ(word(client.configure(key_, Semaphore::most + 1).error()), "invalid_argument");
    { const Lease other = take(client, Key("other kind"), options(30s)); }
    EXPECT_EQ(word(client.configure(Key("other kind"), 2).error()), "limit_differs");
    EXPECT_EQ(client.configure(key_, 0).value(), 1U);
}

TEST_P(Conformance, cancelled_waits_for_a_permit_leave_every_permit_free) {
    DLOCK_NEEDS(Need::modes, Need::lines);
    const Client client = open();
    auto taken = take_permits(client, key_, 2, 2);
    for (int i = 0; i < 5; ++i) {
        std::stop_source stop;
        auto waiter = std::async(std::launch::async, [&] {
            return client.semaphore(key_, 2).try_acquire(options(30s, patience), Context(stop.get_token()));
        });
        if (i % 2 == 0) {
            EXPECT_TRUE(stand_in_line(client, key_, 1));
        }
        stop.request_stop();
        const auto got = waiter.get();
        EXPECT_EQ(refusal(got), "cancelled");
    }
    taken.clear();
    const Client other = open();
    EXPECT_EQ(take_permits(other, key_, 2, 2).size(), 2U);
    EXPECT_EQ(other.show(key_)->waiter_count, 0U);
}

TEST_P(Conformance, lost_replies_at_every_step_never_cost_a_permit_or_give_one_too_many) {
    DLOCK_NEEDS(Need::modes);
    for (const Harm harm : testing::harms_of_one_call) {
        const Key key("conformance/permits/" + std::string(to_string(harm)));
        bool touched = true;
        for (std::size_t n = 1; touched && n < 20; ++n) {
            const auto plan = std::make_shared<FaultPlan>();
            plan->fail_nth(n, harm);
            const Client client = open_faulty(plan, {.call_timeout = 200ms});
            {
                auto one = client.semaphore(key, 2).try_acquire(options(3s, 2s));
                auto two = client.semaphore(key, 2).try_acquire(options(3s, 2s));
                if (one && two) {
                    EXPECT_NE(refusal(client.semaphore(key, 2).try_acquire(options(3s))), "granted")
                        << to_string(harm) << " of call " << n;
                }
            }
            touched = plan->fired() > 0;
        }
        EXPECT_FALSE(touched) << to_string(harm);
        const Client other = open();
        EXPECT_EQ(take_permits(other, key, 2, 2).size(), 2U) << to_string(harm);
    }
}

}  // namespace dlock::conformance
