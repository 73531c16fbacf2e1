// SPDX-License-Identifier: Apache-2.0
/// Many threads of one process on the SQLite store, who share its transactions.
#include <atomic>
#include <deque>
#include <filesystem>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "dlock/dlock.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;

class SqliteStress : public ::testing::Test {
protected:
    static constexpr int crowd = 64;

    SqliteStress() {
        std::string pattern = std::filesystem::temp_directory_path() / "dlock-stress-XXXXXX";
        if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
        folder_ = pattern;
    }
    ~SqliteStress() override {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    [[nodiscard]] Client open() const { return Client::open("sqlite:" + folder_ + "/locks.db").value(); }

    /// What a key guards.
    struct Guarded {
        std::atomic<bool> inside{false};
        std::uint64_t last_fence = 0;  // guarded by the lock under test
        std::atomic<int> faults{0};
        std::atomic<int> runs{0};

        void visit(const Lease& lease) {
            if (inside.exchange(true)) ++faults;
            if (lease.fence()->value <= last_fence) ++faults;
            last_fence = lease.fence()->value;
            inside = false;
            ++runs;
        }
    };

    /// Each thread takes `key_of(thread)` so many times, now by scope and now with an awaited release.
    static void all_take(const Client& client, int times, std::deque<Guarded>& guarded) {
        std::vector<std::jthread> threads;
        for (int t = 0; t < crowd; ++t) {
            threads.emplace_back([&, t] {
                const auto k = static_cast<std::size_t>(t) % guarded.size();
                auto mutex = client.mutex(Key{"k" + std::to_string(k)});
                for (int i = 0; i < times; ++i) {
                    Lease lease = mutex.acquire({.lease = 60s});
                    guarded[k].visit(lease);
                    if (i % 2 == 0) {
                        EXPECT_TRUE(lease.release());
                    }
                }
            });
        }
    }

private:
    std::string folder_;
};

TEST_F(SqliteStress, threads_on_keys_of_their_own_all_get_them) {
    auto client = open();
    std::deque<Guarded> guarded(crowd);
    all_take(client, 30, guarded);
    for (const Guarded& each : guarded) {
        EXPECT_EQ(each.faults, 0);
        EXPECT_EQ(each.runs, 30);
    }
    EXPECT_TRUE(client.close());
    EXPECT_TRUE(open().list()->locks.empty());
}

TEST_F(SqliteStress, threads_on_one_key_exclude_each_other) {
    auto client = open();
    std::deque<Guarded> guarded(1);
    all_take(client, 5, guarded);
    EXPECT_EQ(guarded[0].faults, 0);
    EXPECT_EQ(guarded[0].runs, crowd * 5);
}

TEST_F(SqliteStress, threads_of_two_clients_on_few_keys_exclude_each_other) {
    auto one = open();
    auto two = open();
    std::deque<Guarded> guarded(8);
    std::jthread other([&] { all_take(two, 3, guarded); });
    all_take(one, 3, guarded);
    other.join();
    for (const Guarded& each : guarded) {
        EXPECT_EQ(each.faults, 0);
        EXPECT_EQ(each.runs, 2 * 3 * crowd / 8);
    }
}

TEST_F(SqliteStress, a_client_closes_while_its_callers_stand_in_the_queue) {
    for (int round = 0; round < 10; ++round) {
        auto client = open();
        std::atomic<int> begun{0};
        std::vector<std::jthread> threads;
        for (int t = 0; t < 16; ++t) {
            threads.emplace_back([&begun, mutex = client.mutex(Key{"k" + std::to_string(t)})]() mutable {
                for (;;) {
                    const auto got = mutex.try_acquire({.wait = forever});
                    if (!got && got.error() == errc::cancelled) return;
                    begun.fetch_add(1);
                    begun.notify_all();
                }
            });
        }
        for (int seen = begun; seen < 100; seen = begun) begun.wait(seen);
        EXPECT_TRUE(client.close());
        threads.clear();
        EXPECT_TRUE(open().list()->locks.empty());
    }
}

}  // namespace
}  // namespace dlock
