// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <iostream>
#include <map>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sqlite_support.hpp"

namespace dlock::store::sqlite {
namespace {

void tell(const std::string& line) { std::cout << line << std::endl; }

/// Waits in line until it holds, as the engine would: told by the watch, or looking now and then.
GrantId wait_for(Rig& rig, const std::string& key, std::uint64_t& fence,
                 const GrantId& attempt = new_id<GrantId>(), const TicketId& ticket = new_id<TicketId>()) {
    std::mutex mutex;
    std::condition_variable changed;
    bool told = false;
    std::unique_ptr<Watch> watch;
    for (;;) {
        const AcquireAnswer answer = rig.acquire(key, attempt, 10s, join(ticket));
        if (const auto got = fence_of(answer)) {
            fence = got->value;
            return attempt;
        }
        if (!watch)
            watch = rig.store->watch(rig.subject(key), ticket, [&](Change) {
                const std::lock_guard lock(mutex);
                told = true;
                changed.notify_all();
            });
        std::unique_lock lock(mutex);
        changed.wait_for(lock, 1s, [&] { return told; });
        told = false;
    }
}

/// Adds 1 to a number in a file, `count` times, with nothing but the lock to guard it.
int add(const std::string& file, const std::string& number, int count) {
    Rig rig(file);
    const int shared = open(number.c_str(), O_RDWR | O_CLOEXEC);
    for (int i = 0; i < count; ++i) {
        std::uint64_t state[2] = {0, 0};  // the number, the last fence
        std::uint64_t fence = 0;
        const GrantId grant = wait_for(rig, "number", fence);
        if (pread(shared, state, sizeof state, 0) != sizeof state) return 2;
        if (fence <= state[1]) return 3;
        state[0] += 1;
        state[1] = fence;
        if (pwrite(shared, state, sizeof state, 0) != sizeof state) return 2;
        if (rig.release("number", grant).value() != Released::released) return 4;
    }
    return 0;
}

/// Takes and frees `key` until its input ends.
int hammer(const std::string& file, const std::string& key) {
    Rig rig(file);
    rig.limit = 10s;
    tell("ready");
    for (;;) {
        const auto attempt = new_id<GrantId>();
        if (!fence_of(rig.acquire(key, attempt))) return 2;
        if (!rig.release(key, attempt)) return 3;
    }
}

int hold(const std::string& file, const std::string& key, std::chrono::milliseconds lease) {
    Rig rig(file);
    rig.hold(key, lease);
    tell("held");
    pause();
    return 0;
}

int hand_over(const std::string& file, int count) {
    Rig rig(file);
    for (int i = 0; i < count; ++i) {
        std::uint64_t fence = 0;
        tell("waiting");
        const GrantId grant = wait_for(rig, "k", fence);
        tell(std::to_string(BootClock::now().time_since_epoch().count()));
        std::string go;
        std::getline(std::cin, go);
        if (rig.release("k", grant).value() != Released::released) return 2;
    }
    return 0;
}

class SqliteProcess : public ::testing::Test {
protected:
    TempFolder folder;
    std::string file = folder.path("locks.db");
};

TEST_F(SqliteProcess, sixteen_make_the_database_at_once) {
    std::vector<std::unique_ptr<Process>> processes;
    for (int i = 0; i < 16; ++i)
        processes.push_back(
            std::make_unique<Process>("once", std::vector<std::string>{file, "k" + std::to_string(i)}));
    for (auto& process : processes) ASSERT_EQ(process->line(), "ready");
    for (auto& process : processes) process->say("go");
    for (auto& process : processes) EXPECT_EQ(process->line(), "granted");
    Rig rig(file);
    EXPECT_EQ(rig.list().locks.size(), 16U) << "somebody wrote into another file";
    for (auto& process : processes) process->say("end");
    for (auto& process : processes) EXPECT_EQ(process->wait(), 0);
}

TEST_F(SqliteProcess, one_at_a_time_in_line) {
    const std::string number = folder.path("number");
    const int shared = open(number.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    std::uint64_t state[2] = {0, 0};
    ASSERT_EQ(pwrite(shared, state, sizeof state, 0), static_cast<ssize_t>(sizeof state));
    std::vector<std::unique_ptr<Process>> processes;
    for (int i = 0; i < 6; ++i)
        processes.push_back(std::make_unique<Process>("add", std::vector<std::string>{file, number, "100"}));
    for (auto& process : processes) EXPECT_EQ(process->wait(), 0);
    ASSERT_EQ(pread(shared, state, sizeof state, 0), static_cast<ssize_t>(sizeof state));
    EXPECT_EQ(state[0], 600U);
    close(shared);
}

TEST_F(SqliteProcess, a_killed_holder_is_over_one_lease_later) {
    Process holder("hold", {file, "k", "500"});
    ASSERT_EQ(holder.line(), "held");
    const TimePoint killed = BootClock::now();
    holder.signal(SIGKILL);
    EXPECT_EQ(holder.wait(), 128 + SIGKILL);
    Rig rig(file);
    AcquireAnswer answer = rig.acquire("k", new_id<GrantId>());
    ASSERT_TRUE(std::holds_alternative<Contended>(answer));
    while (!fence_of(answer) && BootClock::now() < killed + patience)
        answer = rig.acquire("k", new_id<GrantId>());
    EXPECT_TRUE(fence_of(answer));
    EXPECT_LT(BootClock::now() - killed, 5s);
}

TEST_F(SqliteProcess, killed_writers_break_nothing) {
    Rig rig(file);
    rig.hold("mine", 60s);
    for (int round = 0; round < 10; ++round) {
        Process writer("hammer", {file, "k" + std::to_string(round)});
        ASSERT_EQ(writer.line(), "ready");
        // It writes without end; where it is when the signal comes differs each time.
        for (int i = 0; i < 20 * round; ++i) rig.fence("other");
        writer.signal(SIGKILL);
        EXPECT_EQ(writer.wait(), 128 + SIGKILL);
        rig.fence("other");
    }
    EXPECT_EQ(Raw(file).one("PRAGMA integrity_check"), "ok");
    EXPECT_EQ(rig.show("mine").holders.size(), 1U);
}

TEST_F(SqliteProcess, a_stopped_writer_delays_the_others_once) {
    Rig rig(file);
    rig.limit = 10s;
    rig.fence("mine");
    Process writer("hammer", {file, "k"});
    ASSERT_EQ(writer.line(), "ready");
    for (int round = 0; round < 20; ++round) {
        writer.signal(SIGSTOP);
        // Stopped inside SQLite's own lock nobody can write: then it goes on before the test does.
        rig.limit = 500ms;
        if (fence_of(rig.acquire("probe" + std::to_string(round), new_id<GrantId>()))) {
            const TimePoint start = BootClock::now();
            for (int i = 0; i < 20; ++i) rig.fence("mine");
            EXPECT_LT(BootClock::now() - start, 900ms) << "20 pairs of calls waited out a courtesy each";
        }
        writer.signal(SIGCONT);
        rig.limit = 10s;
        rig.fence("mine");
    }
}

TEST_F(SqliteProcess, hand_over_takes_no_poll) {
    Rig rig(file);
    GrantId mine = rig.hold("k", 60s);
    Process other("hand_over", {file, "20"});
    std::vector<double> took;
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(other.line(), "waiting");
        const TimePoint until = BootClock::now() + patience;
        while (rig.show("k").waiter_count == 0 && BootClock::now() < until) std::this_thread::yield();
        const auto released = BootClock::now().time_since_epoch();
        ASSERT_EQ(rig.release("k", mine).value(), Released::released);
        const std::string held = other.line();
        ASSERT_FALSE(held.empty());
        took.push_back(static_cast<double>(std::stoll(held) - released.count()) / 1e6);
        const auto attempt = new_id<GrantId>();
        const auto ticket = new_id<TicketId>();
        rig.queue("k", attempt, ticket);
        other.say("go");
        std::uint64_t fence = 0;
        mine = wait_for(rig, "k", fence, attempt, ticket);
    }
    std::sort(took.begin(), took.end());
    RecordProperty("p50_ms", std::to_string(took[took.size() / 2]));
    std::cout << "hand-over p50 " << took[took.size() / 2] << " ms, worst " << took.back() << " ms\n";
    EXPECT_LT(took[took.size() / 2], 500) << "waiters look by themselves each second; this was no wake-up";
    EXPECT_EQ(other.wait(), 0);
}

}  // namespace

int play(const std::string& role, const std::vector<std::string>& arguments) {
    if (role == "add") return add(arguments.at(0), arguments.at(1), std::stoi(arguments.at(2)));
    if (role == "hammer") return hammer(arguments.at(0), arguments.at(1));
    if (role == "hold")
        return hold(arguments.at(0), arguments.at(1), std::chrono::milliseconds(std::stoi(arguments.at(2))));
    if (role == "hand_over") return hand_over(arguments.at(0), std::stoi(arguments.at(1)));
    if (role != "once") return 64;
    Rig rig(arguments.at(0));
    rig.limit = 10s;
    tell("ready");
    std::string word;
    std::getline(std::cin, word);
    const AcquireAnswer answer = rig.acquire(arguments.at(1), new_id<GrantId>(), 60s);
    tell(fence_of(answer) ? "granted" : error_of(answer).message());
    std::getline(std::cin, word);
    return 0;
}

}  // namespace dlock::store::sqlite
