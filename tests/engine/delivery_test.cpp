// SPDX-License-Identifier: Apache-2.0
#include "engine/delivery.hpp"

#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace dlock::engine {
namespace {

using namespace std::chrono_literals;

TEST(Delivery, tasks_run_in_order_on_another_thread) {
    Delivery delivery;
    std::vector<int> seen;
    std::promise<std::thread::id> last;
    for (int i = 0; i < 100; ++i) delivery.post([&seen, i] { seen.push_back(i); });
    delivery.post([&] { last.set_value(std::this_thread::get_id()); });
    EXPECT_NE(last.get_future().get(), std::this_thread::get_id());
    ASSERT_EQ(seen.size(), 100U);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
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
