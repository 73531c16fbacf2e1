// SPDX-License-Identifier: Apache-2.0
/// Blocked callers and the loop pass the right to read around while everything goes wrong at once: callers
/// come and go, waits end, the server stands still, connections are cut. For ThreadSanitizer and for
/// exclusion.
#include <array>
#include <atomic>
#include <condition_variable>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "dlock/dlock.hpp"
#include "support/fault_proxy.hpp"
#include "support/redis_server.hpp"
#include "support/work.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;
using testing::FaultProxy;
using testing::RedisServer;
using testing::Work;

constexpr auto duration = 6s;
constexpr std::size_t keys = 12;

class RedisStress : public ::testing::Test {
protected:
    ~RedisStress() override {
        server_.thaw();
        EXPECT_TRUE(client_.close());
    }

    Mutex mutex(std::size_t key) { return client_.mutex(Key{"k" + std::to_string(key)}); }

    /// A thread of callers: each is one blocking acquire with a wait of its own.
    void call(unsigned seed) {
        std::mt19937 random(seed);
        while (!over()) {
            const std::size_t key = random() % keys;
            const std::chrono::milliseconds wait(random() % 3 == 0 ? 0 : random() % 40);
            auto got = mutex(key).try_acquire({.lease = 60s, .wait = wait});
            if (!got) continue;
            works_[key].run(*got);
            if (random() % 2 == 0) static_cast<void>(got->release());
        }
    }

    /// A chain of async acquires; each begins in the completion of the one before.
    void chain(std::size_t key) {
        if (over()) return finished();
        mutex(key).start_acquire({.lease = 60s, .wait = 20ms}, {}, [this, key](const Result<Lease>& got) {
            if (got) works_[key].run(*got);
            chain((key + 5) % keys);
        });
    }
    void finished() {
        const std::lock_guard lock(mutex_);
        --chains_;
        changed_.notify_all();
    }

    void pause(std::chrono::milliseconds time) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, time, [] { return false; });
    }
    void hurt() {
        std::mt19937 random(1);
        while (!over()) {
            pause(std::chrono::milliseconds(random() % 200));
            if (random() % 2 == 0) {
                server_.freeze();
                pause(std::chrono::milliseconds(random() % 250));
                server_.thaw();
            } else {
                proxy_.cut();
            }
        }
    }
    [[nodiscard]] bool over() const { return BootClock::now() >= end_; }

    RedisServer server_;
    FaultProxy proxy_{server_.port()};
    Client client_ = Client::open("redis://127.0.0.1:" + std::to_string(proxy_.port()),
                                  {.call_timeout = 150ms, .close_within = 10s})
                         .value();
    const TimePoint end_ = BootClock::now() + duration;
    std::array<Work, keys> works_;
    std::mutex mutex_;
    std::condition_variable changed_;
    unsigned chains_ = 3;
};

TEST_F(RedisStress, readers_come_and_go_under_faults) {
    {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < 8; ++t) threads.emplace_back([this, t] { call(t); });
        for (std::size_t key = 0; key < 3; ++key) chain(key);
        hurt();
    }
    {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(changed_.wait_for(lock, 20s, [this] { return chains_ == 0; }));
    }
    int runs = 0;
    for (const auto& work : works_) {
        EXPECT_EQ(work.overlaps, 0);
        runs += work.runs;
    }
    EXPECT_GT(runs, 100);
}

}  // namespace
}  // namespace dlock
