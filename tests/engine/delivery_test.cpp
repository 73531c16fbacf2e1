// SPDX-License-Identifier: Apache-2.0
#include "engine/delivery.hpp"

#include <algorithm>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace dlock::engine {
namespace {

using namespace std::chrono_literals;

const auto main_thread = std::this_thread::get_id();

/// The order in which a hundred tasks ran.
std::vector<int> run_hundred() {
    Delivery delivery;
    std::mutex mutex;
    std::vector<int> seen;
    for (int i = 0; i < 100; ++i) {
        delivery.post([&, i] {
            EXPECT_NE(std::this_thread::get_id(), main_thread);
            const std::lock_guard lock(mutex);
            seen.push_back(i);
        });
    }
    delivery.stop();
    EXPECT_EQ(seen.size(), 100U);
    return seen;
}

TEST(Delivery, tasks_run_in_order_on_another_thread) {
    // On a busy machine a thread can be kept from its task for over 10 ms, and another takes the rest: then
    // the round says nothing. Without an order, no round would have it.
    bool in_order = false;
    for (int round = 0; round < 50 && !in_order; ++round) {
        const auto seen = run_hundred();
        in_order = std::is_sorted(seen.begin(), seen.end());
    }
    EXPECT_TRUE(in_order);
}

TEST(Delivery, a_slow_task_does_not_hold_up_the_rest) {
    Delivery delivery;
    std::promise<void> go_on;
    auto blocked = go_on.get_future().share();
    std::promise<void> overtook;
    delivery.post([blocked] { blocked.wait(); });
    delivery.post([&] { overtook.set_value(); });
    EXPECT_EQ(overtook.get_future().wait_for(10s), std::future_status::ready);
    go_on.set_value();
}

TEST(Delivery, at_most_eight_threads_however_many_tasks_are_slow) {
    Delivery delivery;
    std::promise<void> go_on;
    auto blocked = go_on.get_future().share();
    std::atomic<int> running{0};
    std::promise<void> eight;
    for (int i = 0; i < 12; ++i) {
        delivery.post([&, blocked] {
            if (++running == 8) eight.set_value();
            blocked.wait();
        });
    }
    ASSERT_EQ(eight.get_future().wait_for(10s), std::future_status::ready);
    EXPECT_EQ(running.load(), 8);
    go_on.set_value();
    delivery.stop();
    EXPECT_EQ(running.load(), 12);
}

TEST(Delivery, stop_runs_what_is_queued) {
    Delivery delivery;
    int ran = 0;
    for (int i = 0; i < 10; ++i) delivery.post([&] { ++ran; });
    delivery.stop();
    EXPECT_EQ(ran, 10);
}

TEST(Delivery, may_be_stopped_from_a_task) {
    auto delivery = std::make_unique<Delivery>();
    std::promise<void> stopped;
    delivery->post([&] {
        delivery->stop();
        stopped.set_value();
    });
    EXPECT_EQ(stopped.get_future().wait_for(10s), std::future_status::ready);
}

}  // namespace
}  // namespace dlock::engine
