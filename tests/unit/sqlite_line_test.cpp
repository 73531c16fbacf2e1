// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "sqlite_support.hpp"
#include "store/sqlite/line.hpp"

namespace dlock::store::sqlite {
namespace {

class SqliteLine : public ::testing::Test {
protected:
    SqliteLine() { std::ofstream(file).close(); }
    TempFolder folder;
    std::string file = folder.path("locks.db");
};

TEST_F(SqliteLine, turns_overlap_only_when_one_lasts_longer_than_the_others_wait) {
    std::atomic<int> inside{0};
    std::atomic<int> overlaps{0};
    std::atomic<int> long_turns{0};  // the machine is busy: the thread was kept from going on
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            const auto line = Line::open(file);
            ASSERT_NE(line, nullptr);
            for (int i = 0; i < 2000; ++i) {
                const TimePoint start = BootClock::now();
                {
                    const Line::Turn turn(line.get());
                    if (inside.fetch_add(1) != 0) ++overlaps;
                    std::this_thread::yield();
                    inside.fetch_sub(1);
                }
                if (BootClock::now() - start >= 40ms) ++long_turns;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(overlaps == 0 || long_turns > 0) << overlaps << " overlaps";
}

TEST_F(SqliteLine, whoever_does_not_go_on_is_waited_for_once) {
    const auto line = Line::open(file);
    const auto stuck = std::make_unique<Line::Turn>(line.get());
    const TimePoint start = BootClock::now();
    std::thread other([&] {
        for (int i = 0; i < 100; ++i) {
            const auto mine = Line::open(file);
            const Line::Turn turn(mine.get());
        }
    });
    other.join();
    const auto took = BootClock::now() - start;
    EXPECT_GE(took, 50ms);
    EXPECT_LT(took, 50ms * 50) << "each turn waited again";
}

TEST_F(SqliteLine, a_turn_that_was_taken_away_frees_nothing) {
    const auto line = Line::open(file);
    auto stuck = std::make_unique<Line::Turn>(line.get());
    std::promise<void> taken;
    std::promise<void> done;
    std::thread other([&] {
        const auto mine = Line::open(file);
        const Line::Turn turn(mine.get());
        taken.set_value();
        done.get_future().wait();
    });
    taken.get_future().wait();
    stuck.reset();
    const TimePoint start = BootClock::now();
    { const Line::Turn third(line.get()); }
    EXPECT_GE(BootClock::now() - start, 50ms) << "the turn of the other was open";
    done.set_value();
    other.join();
}

TEST_F(SqliteLine, what_a_power_cut_left_heals) {
    std::ofstream(file + "-line") << std::string(64, '\xff');
    const auto line = Line::open(file);
    ASSERT_NE(line, nullptr);
    { const Line::Turn turn(line.get()); }
    const TimePoint start = BootClock::now();
    { const Line::Turn turn(line.get()); }
    EXPECT_LT(BootClock::now() - start, 50ms);
}

TEST_F(SqliteLine, without_it_all_else_works) {
    std::filesystem::create_directory(file + "-line");
    EXPECT_EQ(Line::open(file), nullptr);
    Rig rig(file);
    rig.hold("k");
}

}  // namespace
}  // namespace dlock::store::sqlite
