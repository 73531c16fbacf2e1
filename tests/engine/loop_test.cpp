// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <future>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/asio_loop.hpp"

namespace dlock::engine {
namespace {

using namespace std::chrono_literals;
using Interest = store::Loop::Interest;

/// Runs `task` on the loop and waits for it.
void on(AsioLoop& loop, const std::function<void()>& task) {
    std::promise<void> done;
    loop.post([&] {
        task();
        done.set_value();
    });
    done.get_future().wait();
}

TEST(AsioLoop, tells_its_own_thread) {
    AsioLoop loop;
    EXPECT_FALSE(loop.here());
    on(loop, [&] { EXPECT_TRUE(loop.here()); });
}

TEST(AsioLoop, a_timer_fires_once_for_each_set_and_not_early) {
    AsioLoop loop;
    std::promise<TimePoint> fired;
    auto timer = loop.timer([&] { fired.set_value(loop.now()); });
    const TimePoint due = loop.now() + 30ms;
    timer->set(due);
    auto future = fired.get_future();
    ASSERT_EQ(future.wait_for(10s), std::future_status::ready);
    EXPECT_GE(future.get(), due);
}

TEST(AsioLoop, the_latest_set_counts_and_the_past_fires_at_once) {
    AsioLoop loop;
    std::promise<void> fired;
    auto timer = loop.timer([&] { fired.set_value(); });
    timer->set(loop.now() + 1h);
    timer->set(TimePoint{});
    EXPECT_EQ(fired.get_future().wait_for(10s), std::future_status::ready);
}

TEST(AsioLoop, a_cancelled_timer_does_not_fire) {
    AsioLoop loop;
    bool fired = false;
    std::promise<void> later;
    auto timer = loop.timer([&] { fired = true; });
    auto after = loop.timer([&] { later.set_value(); });
    timer->set(loop.now() + 20ms);
    timer->cancel();
    after->set(loop.now() + 40ms);
    later.get_future().wait();
    EXPECT_FALSE(fired);
}

TEST(AsioLoop, readiness_is_level_triggered) {
    AsioLoop loop;
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    std::unique_ptr<store::Loop::FdWatch> watch;
    std::string got;
    std::promise<void> all;
    on(loop, [&] {
        watch = loop.watch(ends[0], Interest::read, [&] {
            char one = 0;  // a byte at a time: what is left must be announced again
            if (read(ends[0], &one, 1) == 1) got += one;
            if (got.size() == 5) all.set_value();
        });
    });
    ASSERT_EQ(write(ends[1], "hello", 5), 5);
    EXPECT_EQ(all.get_future().wait_for(10s), std::future_status::ready);
    EXPECT_EQ(got, "hello");
    on(loop, [&] { watch.reset(); });
    EXPECT_EQ(close(ends[0]), 0);  // still ours: a watch does not own its descriptor
    close(ends[1]);
}

TEST(AsioLoop, interest_can_be_changed_and_hang_up_counts_as_readable) {
    AsioLoop loop;
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    std::unique_ptr<store::Loop::FdWatch> watch;
    std::promise<void> writable;
    std::promise<void> ended;
    int calls = 0;
    on(loop, [&] {
        watch = loop.watch(ends[0], Interest::write, [&] {
            if (++calls == 1) {
                watch->want(Interest::read);
                writable.set_value();
            } else if (calls == 2) {
                watch->want(Interest::none);
                ended.set_value();
            }
        });
    });
    EXPECT_EQ(writable.get_future().wait_for(10s), std::future_status::ready);
    close(ends[1]);
    EXPECT_EQ(ended.get_future().wait_for(10s), std::future_status::ready);
    on(loop, [&] { watch.reset(); });
    close(ends[0]);
}

}  // namespace
}  // namespace dlock::engine
