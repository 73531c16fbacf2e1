// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "conformance/fixture.hpp"

namespace dlock::conformance {

namespace {

std::vector<Key> keys(std::size_t count) {
    std::vector<Key> made;
    for (std::size_t i = 0; i < count; ++i) made.emplace_back("conformance/all/" + std::to_string(i));
    return made;
}

}  // namespace

TEST_P(Conformance, several_keys_are_had_all_or_none) {
    const Client client = open();
    const Client other = open();
    {
        const auto all = client.acquire_all(keys(10), options(30s));
        ASSERT_TRUE(all) << all.error().message();
        ASSERT_EQ(all->size(), 10U);
        for (const Lease& lease : *all) {
            EXPECT_TRUE(lease.held());
            expect_contended(other, lease.key());
        }
    }
    for (const Key& key : keys(10)) expect_free(other, key, patience);

    const Lease busy = take(other, keys(10)[7], options(30s));
    const auto none = client.acquire_all(keys(10), options(30s));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error(), errc::contended);
    EXPECT_NE(none.error().detail.find("conformance/all/7"), std::string::npos) << none.error().detail;
    const auto late = client.acquire_all(keys(10), options(30s, 300ms));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error(), errc::timed_out);
    for (const Key& key : keys(10))
        if (key != busy.key()) expect_free(other, key, patience);
}

TEST_P(Conformance, several_keys_are_waited_for_in_one_order_so_nobody_deadlocks) {
    const Client one = open();
    const Client two = open();
    std::atomic<int> inside{0};
    std::atomic<int> done{0};
    const auto work = [&](const Client& client, bool backwards) {
        for (int i = 0; i < 10; ++i) {
            auto asked = keys(4);
            if (backwards) std::reverse(asked.begin(), asked.end());
            const auto all = client.acquire_all(asked, options(30s, patience));
            ASSERT_TRUE(all) << all.error().message();
            EXPECT_EQ(inside.fetch_add(1), 0) << "two had all";
            EXPECT_TRUE(std::is_sorted(all->begin(), all->end(),
                                       [](const Lease& a, const Lease& b) { return a.key() < b.key(); }));
            inside.fetch_sub(1);
            done.fetch_add(1);
        }
    };
    {
        std::vector<std::jthread> threads;
        for (const Client* client : {&one, &two})
            for (const bool backwards : {false, true}) threads.emplace_back(work, *client, backwards);
    }
    EXPECT_EQ(done.load(), 40);
}

TEST_P(Conformance, a_wait_for_several_keys_that_is_cancelled_leaves_nothing) {
    const Client client = open();
    const Client other = open();
    for (std::size_t nth = 0; nth < 3; ++nth) {
        const Lease busy = take(other, keys(3)[nth], options(30s, patience));
        std::stop_source stop;
        const auto before = BootClock::now();
        std::jthread canceller([&] {
            // Until it waits in line, where the store has one; else for a moment.
            while (since(before) < 300ms && other.show(busy.key())->waiter_count == 0)
                std::this_thread::yield();
            stop.request_stop();
        });
        const auto all = client.acquire_all(keys(3), options(30s, patience), Context(stop.get_token()));
        ASSERT_FALSE(all);
        EXPECT_EQ(all.error(), errc::cancelled) << all.error().message();
        for (const Key& key : keys(3))
            if (key != busy.key()) expect_free(other, key, patience);
    }
}

TEST_P(Conformance, bad_sets_of_keys_are_refused_and_nothing_is_held) {
    const Client client = open();
    const auto refused = [&](std::vector<Key> asked, const AcquireOptions& how = {}) {
        const auto all = client.acquire_all(std::move(asked), how);
        return all ? std::string("no error") : word(all.error()) + " " + all.error().detail;
    };
    EXPECT_EQ(refused({}).find("invalid_argument keys"), 0U) << refused({});
    EXPECT_EQ(refused({Key("a"), Key("b"), Key("a")}),
              "invalid_argument keys: a is there twice; give each one once");
    EXPECT_EQ(refused({Key("a"), Key("")}).find("invalid_argument"), 0U);
    EXPECT_EQ(refused({Key("a")}, options(0ms)).find("invalid_argument lease"), 0U);
    EXPECT_TRUE(client.list()->locks.empty());

    Context context;
    context.txid = "t1";
    const auto outer = client.mutex(Key("b")).try_acquire(options(30s), context);
    ASSERT_TRUE(outer);
    const auto nested = client.acquire_all({Key("a"), Key("b")}, options(30s, patience), context);
    ASSERT_FALSE(nested);
    EXPECT_EQ(nested.error(), errc::would_deadlock);
    EXPECT_EQ(nested.error().detail.find("b: "), 0U) << nested.error().detail;
}

}  // namespace dlock::conformance
