// SPDX-License-Identifier: Apache-2.0
/// Many threads on few keys, for ThreadSanitizer and for exclusion: callers come and go, waits are cancelled,
/// leases are forced, clients close in the middle.
#include <array>
#include <atomic>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "dlock/dlock.hpp"
#include "support/work.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;
using testing::Work;

TEST(Stress, threads_of_two_clients_exclude_each_other) {
    std::array clients{Client::open("memory:stress").value(), Client::open("memory:stress").value()};
    std::array<Work, 3> works;
    {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < 8; ++t) {
            threads.emplace_back([&, t] {
                std::mt19937 random(t);
                for (int i = 0; i < 150; ++i) {
                    const auto k = random() % works.size();
                    auto mutex = clients[t % 2].mutex(Key{"k" + std::to_string(k)});
                    const auto wait = random() % 4 == 0 ? std::chrono::milliseconds(random() % 3) : forever;
                    if (auto got = mutex.try_acquire({.lease = 60s, .wait = wait})) works[k].run(*got);
                }
            });
        }
    }
    for (const auto& work : works) {
        EXPECT_EQ(work.overlaps, 0);
        EXPECT_GT(work.runs, 0);
    }
    EXPECT_TRUE(clients[0].list()->locks.empty());
}

TEST(Stress, sets_of_keys_taken_whole_and_adopted_leases_exclude_each_other) {
    const std::array clients{Client::open("memory:stress-sets").value(),
                             Client::open("memory:stress-sets").value()};
    std::array<Work, 4> works;
    {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < 6; ++t) {
            threads.emplace_back([&, t] {
                for (unsigned i = 0; i < 60; ++i) {
                    const unsigned k = (t + i) % 4;
                    const unsigned l = (k + 1 + i % 3) % 4;
                    auto pair = clients[t % 2].acquire_all(
                        {Key{"k" + std::to_string(k)}, Key{"k" + std::to_string(l)}},
                        {.lease = 60s, .wait = forever});
                    works[std::min(k, l)].run(pair->front());
                    works[std::max(k, l)].run(pair->back());
                    const LeaseId id = pair->front().detach();
                    Lease adopted = clients[(t + 1) % 2].adopt(id, {.lease = 60s}).value();
                    adopted.progress();
                }
            });
        }
    }
    for (const auto& work : works) {
        EXPECT_EQ(work.overlaps, 0);
        EXPECT_GT(work.runs, 0);
    }
}

/// What several hold together: a writer weighs as much as all.
class Weight {
public:
    explicit Weight(int most) : most_(most) {}
    void bear(int weight) {
        if (sum_.fetch_add(weight) + weight > most_) ++overlaps;
        std::this_thread::yield();
        sum_ -= weight;
    }
    std::atomic<int> overlaps{0};

private:
    const int most_;
    std::atomic<int> sum_{0};
};

TEST(Stress, readers_writers_and_mode_changes_never_overlap) {
    const std::array clients{Client::open("memory:stress-modes").value(),
                             Client::open("memory:stress-modes").value()};
    Weight both(100);
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 6; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            auto mutex = clients[t % 2].shared_mutex(Key{"both"});
            for (int i = 0; i < 100; ++i) {
                const bool reads = random() % 3 != 0;
                const auto wait = random() % 4 == 0 ? std::chrono::milliseconds(random() % 3) : forever;
                const AcquireOptions how{.lease = 60s, .wait = wait};
                auto got = reads ? mutex.try_acquire_shared(how) : mutex.try_acquire(how);
                if (!got) continue;
                if (reads) {
                    both.bear(1);
                    if (mutex.try_upgrade(*got)) both.bear(100);
                } else {
                    both.bear(100);
                    if (mutex.downgrade(*got)) both.bear(1);
                    const auto second = got->join();
                    static_cast<void>(got->release());
                    both.bear(1);
                }
            }
        });
    }
    threads.clear();
    EXPECT_EQ(both.overlaps, 0);
    EXPECT_TRUE(clients[0].list()->locks.empty());
}

TEST(Stress, permits_are_never_too_many_while_their_number_changes) {
    const std::array clients{Client::open("memory:stress-permits").value(),
                             Client::open("memory:stress-permits").value()};
    const Key key{"some"};
    ASSERT_TRUE(clients[0].configure(key, 3));
    Weight some(3);
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 6; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            auto semaphore = clients[t % 2].semaphore(key, Semaphore::as_configured);
            for (int i = 0; i < 100; ++i) {
                const auto wait = random() % 4 == 0 ? std::chrono::milliseconds(random() % 3) : forever;
                if (const auto got = semaphore.try_acquire({.lease = 60s, .wait = wait})) some.bear(1);
                const auto permits = static_cast<std::uint32_t>(1 + random() % 3);
                if (i % 20 == 0) {
                    EXPECT_TRUE(clients[t % 2].configure(key, permits));
                }
            }
        });
    }
    threads.clear();
    EXPECT_EQ(some.overlaps, 0);
    EXPECT_TRUE(clients[0].list()->locks.empty());
}

TEST(Stress, cancelled_waits_and_async_callers_leave_nothing) {
    auto client = Client::open("memory:stress-cancel").value();
    std::atomic<int> finished{0};
    {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                std::mt19937 random(t);
                auto mutex = client.mutex(Key{"k"});
                for (int i = 0; i < 100; ++i) {
                    std::stop_source stop;
                    mutex.start_acquire({.wait = forever}, Context(stop.get_token()),
                                        [&finished](Result<Lease>) { ++finished; });
                    if (random() % 2 == 0) stop.request_stop();
                    static_cast<void>(mutex.try_acquire({.wait = 1ms}));
                }
            });
        }
    }
    EXPECT_TRUE(client.close());
    EXPECT_EQ(finished, 400);
    EXPECT_TRUE(Client::open("memory:stress-cancel").value().list()->locks.empty());
}

TEST(Stress, short_leases_are_renewed_while_others_come_and_go) {
    auto client = Client::open("memory:stress-renew").value();
    std::vector<Lease> held;
    for (int i = 0; i < 50; ++i)
        held.push_back(client.mutex(Key{"held" + std::to_string(i)}).acquire({.lease = 2s}));
    const auto until = BootClock::now() + 3s;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            auto mutex = client.mutex(Key{"busy" + std::to_string(t % 2)});
            while (BootClock::now() < until) static_cast<void>(mutex.try_acquire({.wait = 5ms}));
        });
    }
    threads.clear();
    for (const auto& lease : held) EXPECT_TRUE(lease.held()) << lease.lost_reason();
}

TEST(Stress, clients_close_while_their_callers_are_busy) {
    for (int round = 0; round < 20; ++round) {
        auto client = Client::open("memory:stress-close").value();
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([mutex = client.mutex(Key{"k"})]() mutable {
                for (;;) {
                    const auto got = mutex.try_acquire({.wait = forever});
                    if (!got && got.error() == errc::cancelled) return;
                }
            });
        }
        EXPECT_TRUE(client.close());
    }
}

}  // namespace
}  // namespace dlock
