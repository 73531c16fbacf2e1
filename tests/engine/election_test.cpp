// SPDX-License-Identifier: Apache-2.0
/// Elections over the memory store.
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlock/dlock.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

/// What the callbacks of all candidates of a test did, in order.
class Diary {
public:
    void write(const std::string& line) {
        const std::lock_guard lock(mutex_);
        lines_.push_back(line);
        changed_.notify_all();
    }
    /// Until there are so many lines; all that there are.
    std::vector<std::string> wait(std::size_t count) {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(changed_.wait_for(lock, 20s, [&] { return lines_.size() >= count; }));
        return lines_;
    }
    /// Each "x+" is followed by "x-" before any other one.
    void expect_pairs() {
        const std::lock_guard lock(mutex_);
        for (std::size_t i = 0; i < lines_.size(); ++i) {
            EXPECT_EQ(lines_[i].back(), i % 2 == 0 ? '+' : '-') << i;
            if (i % 2 == 1) {
                EXPECT_EQ(lines_[i].front(), lines_[i - 1].front()) << i;
            }
        }
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> lines_;
};

class ElectionTest : public testing::Test {
protected:
    const Key key{"election/" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name())};
    Client client = Client::open("memory:election-test", {}, Identity{"one"}).value();
    Client other = Client::open("memory:election-test", {}, Identity{"two"}).value();
    Diary diary;

    Election stand(const Client& candidate, const std::string& name, const ElectionOptions& options = {}) {
        return candidate
            .campaign(
                key, [this, name](const Lease&, const std::stop_token&) { diary.write(name + "+"); },
                [this, name](const Lease&) { diary.write(name + "-"); }, options)
            .value();
    }
    void force() {
        const auto info = client.show(key).value();
        ASSERT_FALSE(info.holders.empty());
        EXPECT_EQ(*client.force_release(key, info.holders[0].public_id), Forced::done);
    }
};

/// Only a forced loss ends it, however busy the machine is.
constexpr ElectionOptions quick{.lock = {.lease = 10s}, .stand_back = 50ms};

TEST_F(ElectionTest, one_leads_until_it_stops_and_then_the_other) {
    Election first = stand(client, "a");
    diary.wait(1);
    EXPECT_TRUE(first.leading());
    Election second = stand(other, "b");
    EXPECT_EQ(second.leader()->value().owner.service, "one");
    EXPECT_FALSE(second.leading());
    first.stop();
    EXPECT_FALSE(first.leading());
    diary.wait(3);
    second.stop();
    EXPECT_THAT(diary.wait(4), ElementsAre("a+", "a-", "b+", "b-"));
    EXPECT_FALSE(second.leader().value());
}

TEST_F(ElectionTest, pairs_are_strict_under_forced_loss) {
    Election election = stand(client, "a", {.lock = {.lease = 2s}});
    for (std::size_t i = 0; i < 4; ++i) {
        diary.wait(2 * i + 1);
        force();
        diary.wait(2 * i + 2);
    }
    election.stop();
    diary.expect_pairs();
}

TEST_F(ElectionTest, resign_hands_over_to_the_other_candidate) {
    Election first = stand(client, "a", quick);
    diary.wait(1);
    Election second = stand(other, "b", quick);
    while (other.show(key).value().waiter_count == 0) std::this_thread::yield();
    first.resign();
    diary.wait(3);
    while (client.show(key).value().waiter_count == 0) std::this_thread::yield();  // it stands again
    second.resign();
    diary.wait(5);
    second.resign();  // it does not lead: nothing
    EXPECT_TRUE(first.leading());
    first.stop();
    second.stop();
    diary.expect_pairs();
    const auto lines = diary.wait(6);
    EXPECT_THAT(std::vector(lines.begin(), lines.begin() + 6),
                ElementsAre("a+", "a-", "b+", "b-", "a+", "a-"));
}

TEST_F(ElectionTest, alone_it_stands_again_after_it_resigned) {
    Election election = stand(client, "a", quick);
    diary.wait(1);
    election.resign();
    diary.wait(3);
    election.stop();
    EXPECT_THAT(diary.wait(4), ElementsAre("a+", "a-", "a+", "a-"));
}

TEST_F(ElectionTest, stop_during_on_elected_ends_the_work_and_nobody_else_leads_before) {
    std::promise<void> inside;
    Election first = client
                         .campaign(
                             key,
                             [&](const Lease& lease, const std::stop_token& ended) {
                                 diary.write("a+");
                                 inside.set_value();
                                 std::mutex mutex;
                                 std::unique_lock lock(mutex);
                                 std::condition_variable_any().wait(lock, ended, [] { return false; });
                                 EXPECT_TRUE(lease.held());
                             },
                             [&](const Lease& lease) {
                                 EXPECT_TRUE(lease.held());
                                 EXPECT_FALSE(other.mutex(key).try_acquire());
                                 diary.write("a-");
                             })
                         .value();
    inside.get_future().wait();
    Election second = stand(other, "b");
    first.stop();
    EXPECT_TRUE(diary.wait(2).at(1) == "a-");
    diary.wait(3);
    second.stop();
    diary.expect_pairs();
}

TEST_F(ElectionTest, an_exception_of_a_callback_ends_the_leadership_and_is_told) {
    int elected = 0;
    std::promise<void> again;
    Election election = client
                            .campaign(
                                key,
                                [&](const Lease&, const std::stop_token&) {
                                    diary.write("a+");
                                    if (++elected == 1) throw std::runtime_error("cannot start");
                                    if (elected == 3) again.set_value();
                                },
                                [&](const Lease&) {
                                    diary.write("a-");
                                    if (elected == 2) throw 7;
                                },
                                quick)
                            .value();
    diary.wait(3);
    election.resign();
    again.get_future().wait();
    election.stop();
    diary.expect_pairs();
}

TEST_F(ElectionTest, the_problem_names_what_was_thrown) {
    std::promise<void> lost;
    Election election =
        client
            .campaign(
                key, [&](const Lease&, const std::stop_token&) { throw std::runtime_error("cannot start"); },
                [&](const Lease&) { lost.set_value(); }, {.stand_back = 1h})
            .value();
    lost.get_future().wait();
    EXPECT_THAT(election.problem(), HasSubstr("on_elected threw: cannot start"));
}

TEST_F(ElectionTest, it_may_be_stopped_resigned_and_destroyed_by_its_own_callback) {
    std::promise<void> made;
    auto mine = made.get_future().share();
    std::promise<void> ended;
    std::optional<Election> kept;
    auto election = client.campaign(
        key,
        [&](const Lease&, const std::stop_token& over) {
            mine.wait();
            kept->resign();
            kept->stop();
            EXPECT_TRUE(over.stop_requested());
            kept.reset();
        },
        [&](const Lease&) { ended.set_value(); });
    kept.emplace(std::move(*election));
    made.set_value();
    EXPECT_EQ(ended.get_future().wait_for(20s), std::future_status::ready);
    EXPECT_TRUE(other.mutex(key).try_acquire({.wait = 20s}));
}

TEST_F(ElectionTest, the_end_of_the_client_ends_it) {
    Election election = stand(client, "a");
    diary.wait(1);
    EXPECT_TRUE(client.close());
    diary.wait(2);
    Election second = stand(other, "b");
    diary.wait(3);
    election.stop();
    EXPECT_THAT(election.problem(), HasSubstr("cancelled"));
    second.stop();
    EXPECT_THAT(diary.wait(4), ElementsAre("a+", "a-", "b+", "b-"));
}

TEST_F(ElectionTest, a_term_ends_with_max_hold) {
    Election election = stand(client, "a", {.lock = {.lease = 200ms, .max_hold = 300ms}});
    diary.wait(4);
    election.stop();
    diary.expect_pairs();
}

TEST_F(ElectionTest, an_election_keeps_its_client_open_and_can_be_moved) {
    std::optional<Client> mine = Client::open("memory:election-test").value();
    std::optional<Election> election = stand(*mine, "a");
    mine.reset();
    diary.wait(1);
    Election moved = std::move(*election);
    election.reset();
    EXPECT_TRUE(moved.leading());
    moved = stand(other, "b");
    diary.wait(3);
    EXPECT_THAT(diary.wait(3), ElementsAre("a+", "a-", "b+"));
}

TEST_F(ElectionTest, in_a_forked_child_it_is_inert) {
    std::optional<Election> election = stand(client, "a");
    diary.wait(1);
    const pid_t child = fork();
    if (child == 0) {
        const bool inert = !election->leading() && !election->problem().empty();
        election->resign();
        election->stop();
        election.reset();
        _exit(inert ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(election->leading());
}

TEST_F(ElectionTest, bad_arguments_are_refused_at_once) {
    const auto refusal = [&](const Key& where, const ElectionOptions& options, Election::OnLost on_lost) {
        const auto got = client.campaign(
            where, [](const Lease&, const std::stop_token&) {}, std::move(on_lost), options);
        return got ? std::string("no error") : got.error().detail;
    };
    const auto fine = [](const Lease&) {};
    EXPECT_THAT(refusal(key, {.lock = {.lease = 50ms}}, fine), HasSubstr("lease"));
    EXPECT_THAT(refusal(key, {.stand_back = -1ms}, fine), HasSubstr("stand_back"));
    EXPECT_THAT(refusal(Key{""}, {}, fine), HasSubstr("key"));
    EXPECT_THAT(refusal(key, {}, nullptr), HasSubstr("on_lost"));
}

}  // namespace
}  // namespace dlock
