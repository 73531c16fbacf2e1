// SPDX-License-Identifier: Apache-2.0
#include "cli/changes.hpp"

#include <gtest/gtest.h>

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;
using Kind = LockChange::Kind;

constexpr TimePoint begin{std::chrono::hours(1)};

HolderInfo holder(const std::string& id, std::chrono::milliseconds left) {
    HolderInfo made;
    made.public_id = id;
    made.expires_in = left;
    return made;
}

LockInfo lock(const std::string& key, std::vector<HolderInfo> holders, std::size_t waiters = 0) {
    LockInfo made;
    made.key = Key(key);
    made.holders = std::move(holders);
    made.waiter_count = waiters;
    return made;
}

std::vector<std::string> told(const std::vector<LockChange>& changes) {
    std::vector<std::string> lines;
    for (const LockChange& change : changes) {
        std::string line = change.key.bytes() + " " + std::string(to_string(change.kind));
        if (change.holder) line += " " + change.holder->public_id;
        lines.push_back(std::move(line));
    }
    return lines;
}

using Lines = std::vector<std::string>;

TEST(Changes, what_was_held_at_the_first_look_is_no_grant) {
    Seen seen;
    EXPECT_EQ(told(seen.look({lock("a", {holder("1", 30s)})}, begin)), Lines{"a held 1"});
    EXPECT_EQ(told(seen.look({lock("a", {holder("1", 30s)})}, begin + 1s)), Lines{});
}

TEST(Changes, a_lock_that_is_passed_on_ends_before_it_begins) {
    Seen seen;
    seen.look({lock("a", {holder("1", 30s)}, 2)}, begin);
    EXPECT_EQ(told(seen.look({lock("a", {holder("2", 30s)}, 1)}, begin + 1s)),
              (Lines{"a released 1", "a granted 2", "a waiting"}));
}

TEST(Changes, a_grant_that_is_gone_after_its_time_has_expired) {
    Seen seen;
    seen.look({lock("a", {holder("1", 900ms)}), lock("b", {holder("2", 1200ms)})}, begin);
    EXPECT_EQ(told(seen.look({}, begin + 1s)), (Lines{"a expired 1", "b released 2"}));
}

TEST(Changes, a_key_that_is_no_longer_named_has_no_line) {
    Seen seen;
    seen.look({lock("a", {}, 3)}, begin);
    const auto changes = seen.look({}, begin + 1s);
    ASSERT_EQ(told(changes), Lines{"a waiting"});
    EXPECT_EQ(changes[0].waiters, 0U);
    EXPECT_EQ(changes[0].waiters_before, 3U);
}

TEST(Changes, several_holders_of_one_key_are_told_apart) {
    Seen seen;
    seen.look({lock("a", {holder("1", 9s), holder("2", 9s)})}, begin);
    EXPECT_EQ(told(seen.look({lock("a", {holder("2", 9s), holder("3", 9s)})}, begin + 1s)),
              (Lines{"a released 1", "a granted 3"}));
}

TEST(Changes, a_problem_is_told_when_it_comes_and_when_it_goes) {
    Seen seen;
    LockInfo bad = lock("a", {});
    seen.look({bad}, begin);
    bad.problem = "damaged";
    EXPECT_EQ(seen.look({bad}, begin + 1s).at(0).text, "damaged");
    EXPECT_EQ(told(seen.look({lock("a", {})}, begin + 2s)), Lines{"a problem"});
}

}  // namespace
}  // namespace dlock::cli
