// SPDX-License-Identifier: Apache-2.0
/// Work that is done once.
#include <future>
#include <thread>

#include "conformance/fixture.hpp"

namespace dlock::conformance {

namespace {

std::string must_not_run(Lease&) {
    ADD_FAILURE() << "it ran again";
    return "again";
}

}  // namespace

TEST_P(Conformance, a_result_is_had_by_others_with_who_and_when) {
    DLOCK_NEEDS(Need::modes);
    const Client one = open();
    const Client two = open();
    std::string all_bytes;
    for (int byte = 0; byte < 4096; ++byte) all_bytes += static_cast<char>(byte);
    const auto ran = one.once(key_, [&](Lease& lease) {
        EXPECT_TRUE(lease.held());
        expect_contended(two, key_);
        return all_bytes;
    });
    ASSERT_TRUE(ran) << ran.error().message();
    EXPECT_TRUE(ran->ran);
    const auto known = two.once(key_, must_not_run);
    ASSERT_TRUE(known) << known.error().message();
    EXPECT_FALSE(known->ran);
    EXPECT_EQ(known->result, all_bytes);
    EXPECT_EQ(known->by, ran->by);
    EXPECT_LT(known->age, patience);
    EXPECT_NE(known->at, std::chrono::system_clock::time_point());
    EXPECT_TRUE(two.mutex(key_).try_acquire(options(30s))) << "an ordinary lock does not look for it";
}

TEST_P(Conformance, who_waits_for_work_that_is_done_once_gets_its_result) {
    DLOCK_NEEDS(Need::modes);
    const Client one = open();
    const Client two = open();
    std::atomic<int> runs{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) {
        threads.emplace_back([&, i] {
            const auto got = (i % 2 == 0 ? one : two).once(key_, [&](Lease&) {
                // All others stand in line by then: one place a client.
                for (const auto begun = BootClock::now(); since(begun) < patience;)
                    if (one.show(key_)->waiter_count == 2) break;
                return std::to_string(++runs);
            });
            ASSERT_TRUE(got) << got.error().message();
            EXPECT_EQ(got->result, "1");
        });
    }
    threads.clear();
    EXPECT_EQ(runs.load(), 1);
    EXPECT_EQ(one.show(key_)->waiter_count, 0U);
}

TEST_P(Conformance, a_result_runs_out_by_the_stores_clock) {
    DLOCK_NEEDS(Need::modes);
    const Client client = open();
    ASSERT_TRUE(client.once(key_, [](Lease&) { return "1"; }, {.keep = 300ms})->ran);
    const TimePoint begun = BootClock::now();
    int looks = 0;
    while (!client.once(key_, [](Lease&) { return "2"; })->ran) {
        ++looks;
        ASSERT_LT(since(begun), patience);
    }
    EXPECT_GE(since(begun), 200ms);
    EXPECT_GE(looks, 1);
    EXPECT_EQ(client.once(key_, must_not_run)->result, "2");
}

TEST_P(Conformance, killed_in_the_middle_of_work_that_is_done_once_the_next_one_runs_it) {
    DLOCK_NEEDS(Need::modes, Need::processes);
    const auto first = worker();
    ASSERT_TRUE(first->acquire("a", 1s, key_));
    const Client next = open();
    auto got = std::async(std::launch::async, [&] { return next.once(key_, [](Lease&) { return "x"; }); });
    while (next.show(key_)->waiter_count == 0) std::this_thread::yield();
    first->kill();
    ASSERT_EQ(got.wait_for(patience), std::future_status::ready);
    EXPECT_TRUE(got.get().value().ran);
}

TEST_P(Conformance, a_forced_end_or_an_expiry_keeps_no_result) {
    DLOCK_NEEDS(Need::modes);
    const Client client = open();
    const Client other = open();
    const auto forced = client.once(key_, [&](Lease& lease) {
        EXPECT_EQ(other.force_release(key_, lease.id().public_id()).value(), Forced::done);
        return "late";
    });
    ASSERT_FALSE(forced);
    EXPECT_EQ(forced.error(), errc::lost) << forced.error().message();
    const auto expired = client.once(key_,
                                     [&](Lease& lease) {
                                         LossWatch watch(lease);
                                         EXPECT_TRUE(watch.wait());
                                         return "late";
                                     },
                                     {.lock = options(300ms, patience, Renewing::manual)});
    ASSERT_FALSE(expired);
    EXPECT_EQ(expired.error(), errc::lost) << expired.error().message();
    EXPECT_TRUE(other.once(key_, [](Lease&) { return "anew"; })->ran);
}

TEST_P(Conformance, a_call_lost_at_any_step_of_once_neither_invents_a_result_nor_loses_a_told_one) {
    DLOCK_NEEDS(Need::modes);
    const Client honest = open();
    int number = 0;
    for (const Harm harm : testing::harms_of_one_call) {
        for (std::size_t n = 1;; ++n) {
            SCOPED_TRACE(std::string(to_string(harm)) + " at call " + std::to_string(n));
            const auto plan = std::make_shared<FaultPlan>();
            plan->fail_nth(n, harm);
            const Client client = open_faulty(plan, {.call_timeout = 100ms, .close_within = 1s});
            const Key key("conformance/once/" + std::to_string(++number));
            bool ran = false;
            const auto got = client.once(key,
                                         [&](Lease&) {
                                             ran = true;
                                             return std::string("mine");
                                         },
                                         {.lock = options(1s, 0ms)});
            const auto next =
                honest.once(key, [](Lease&) { return "next"; }, {.lock = options(1s, patience)});
            ASSERT_TRUE(next) << next.error().message();
            if (got) {
                EXPECT_EQ(next->result, "mine");
            } else {
                EXPECT_TRUE(got.error() == errc::unknown_outcome || got.error() == errc::unavailable)
                    << got.error().message();
            }
            if (!ran) {
                EXPECT_TRUE(next->ran) << "a result of work that did not run";
            }
            ASSERT_LT(n, 40U) << "the script does not end";
            if (plan->fired() == 0) break;
        }
    }
}

TEST_P(Conformance, a_store_that_keeps_no_results_refuses_work_that_is_done_once) {
    if (has(Need::modes)) GTEST_SKIP() << "it keeps them";
    const auto got = open().once(key_, must_not_run);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error(), errc::unsupported);
}

}  // namespace dlock::conformance
