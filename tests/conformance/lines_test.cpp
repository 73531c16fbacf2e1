// SPDX-License-Identifier: Apache-2.0
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>

#include "conformance/fixture.hpp"

namespace dlock::conformance {

namespace {

constexpr milliseconds ticket_lease = 5s;
constexpr milliseconds look = 2s;  ///< the longest a waiter goes without a look of its own

/// Where the grants of many waiters come in.
class Arrivals {
public:
    void start(const Client& client, const Key& key, AcquireOptions how) {
        client.mutex(key).start_acquire(how, {}, [this](Result<Lease> answer) {
            const std::lock_guard lock(mutex_);
            answers_.push_back(std::move(answer));
            changed_.notify_all();
        });
    }
    std::optional<Result<Lease>> next() {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, patience, [this] { return !answers_.empty(); })) return std::nullopt;
        Result<Lease> answer = std::move(answers_.front());
        answers_.pop_front();
        return answer;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Result<Lease>> answers_;
};

}  // namespace

TEST_P(Conformance, waiters_of_several_processes_are_served_in_order_of_arrival) {
    DLOCK_NEEDS(Need::lines);
    const Client client = open();
    Lease holder = take(client, key_, options(30s));
    std::vector<std::unique_ptr<Worker>> line;
    for (std::size_t i = 0; i < 5; ++i) {
        line.push_back(worker());
        ASSERT_TRUE(line.back()->queue_up("a", 30s, key_)) << line.back()->unread();
        const LockInfo info = client.show(key_).value();
        EXPECT_EQ(info.waiter_count, i + 1);
        EXPECT_EQ(info.waiters.size(), i + 1);
    }
    ASSERT_TRUE(holder.release());
    for (std::size_t i = 0; i < line.size(); ++i) {
        ASSERT_TRUE(line[i]->expect("granted a")) << i << ": " << line[i]->unread();
        for (std::size_t later = i + 1; later < line.size(); ++later) {
            EXPECT_FALSE(line[later]->said("granted a")) << later << " before " << i;
        }
        EXPECT_EQ(line[i]->ask("release a", "released a"), "ok");
    }
    expect_free(client, key_, 0ms);
}

TEST_P(Conformance, a_newcomer_does_not_overtake_the_line) {
    DLOCK_NEEDS(Need::lines);
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client waiting = open({}, events);
    const Client newcomer = open();
    for (int i = 0; i < 20; ++i) {
        Lease lease = take(holder, key_, options(30s));
        Pending waiter = wait_behind(waiting, *events, key_, options(30s, patience));
        ASSERT_TRUE(lease.release());
        expect_contended(newcomer, key_);
        auto got = waiter.get();
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_TRUE(got->release());
    }
}

TEST_P(Conformance, waiters_of_one_client_are_served_in_order_and_take_turns_with_another_client) {
    DLOCK_NEEDS(Need::lines);
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client two = open({}, events);
    const Client one = open();
    Lease lease = take(holder, key_, options(30s));
    std::vector<Pending> waiters;
    waiters.push_back(wait_behind(two, *events, key_, options(30s, 2 * patience)));
    waiters.emplace_back(two, key_, options(30s, 2 * patience));
    // Behind the first of `two`; the second of `two` has to let it go first, since each grant moves to the
    // tail.
    const auto other = worker();
    ASSERT_TRUE(other->queue_up("a", 30s, key_)) << other->unread();
    ASSERT_TRUE(lease.release());

    auto first = waiters[0].get();
    ASSERT_TRUE(first) << first.error().message();
    EXPECT_TRUE(first->release());
    ASSERT_TRUE(other->expect("granted a")) << other->unread();
    EXPECT_FALSE(waiters[1].ready());
    EXPECT_EQ(other->ask("release a", "released a"), "ok");
    auto second = waiters[1].get();
    ASSERT_TRUE(second) << second.error().message();
    EXPECT_TRUE(second->release());
}

TEST_P(Conformance, dead_and_stopped_waiters_cost_at_most_one_ticket_lease_together) {
    DLOCK_NEEDS(Need::lines, Need::processes);
    const auto events = std::make_shared<Recorder>();
    const Client client = open();
    const Client last = open({}, events);
    Lease holder = take(client, key_, options(30s));
    std::vector<std::unique_ptr<Worker>> gone;
    for (int i = 0; i < 3; ++i) {
        gone.push_back(worker());
        ASSERT_TRUE(gone.back()->queue_up("a", 30s, key_)) << gone.back()->unread();
    }
    Pending waiter = wait_behind(last, *events, key_, options(30s, 3 * patience));
    gone[0]->kill();
    gone[1]->stop();
    gone[2]->kill();
    const TimePoint start = BootClock::now();
    ASSERT_TRUE(holder.release());
    auto got = waiter.get();
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_LT(since(start), ticket_lease + look + 2s) << "each dead waiter cost time of its own";

    // The stopped one comes back: it has lost its place and takes nothing away.
    gone[1]->resume();
    EXPECT_TRUE(got->renew());
    EXPECT_TRUE(got->release());
    EXPECT_TRUE(gone[1]->expect("granted a")) << gone[1]->unread();
    EXPECT_EQ(gone[1]->ask("release a", "released a"), "ok");
    expect_free(client, key_, 0ms);
}

TEST_P(Conformance, a_waiter_that_falls_silent_is_passed_over_when_its_ticket_ends) {
    DLOCK_NEEDS(Need::lines);
    const auto plan = std::make_shared<FaultPlan>();
    const auto silent_events = std::make_shared<Recorder>();
    const auto events = std::make_shared<Recorder>();
    ClientOptions brief;
    brief.close_within = 100ms;
    const Client holder = open();
    const Client silent = open_faulty(plan, brief, silent_events);
    const Client next = open({}, events);
    Lease lease = take(holder, key_, options(30s));
    Pending gone = wait_behind(silent, *silent_events, key_, options(30s, patience));
    Pending waiter = wait_behind(next, *events, key_, options(30s, patience));
    plan->set([](Op, std::size_t) { return Harm::silent_before; });
    const TimePoint start = BootClock::now();
    ASSERT_TRUE(lease.release());
    auto got = waiter.get();
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_LT(since(start), ticket_lease + look + 2s);
    EXPECT_FALSE(gone.ready() && gone.get()) << "two hold the lock";
}

TEST_P(Conformance, when_the_first_waiter_of_a_client_gives_up_the_next_one_has_its_place) {
    DLOCK_NEEDS(Need::lines);
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client waiting = open({}, events);
    const auto later = worker();
    Lease lease = take(holder, key_, options(30s));
    Pending first = wait_behind(waiting, *events, key_, options(30s, patience));
    ASSERT_TRUE(later->queue_up("a", 30s, key_)) << later->unread();
    Pending second(waiting, key_, options(30s, patience));
    first.cancel();
    const auto answer = first.get();
    ASSERT_FALSE(answer);
    EXPECT_EQ(word(answer.error()), "cancelled");
    ASSERT_TRUE(lease.release());
    auto got = second.get();
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_FALSE(later->said("granted a"));
    EXPECT_TRUE(got->release());
    EXPECT_TRUE(later->expect("granted a")) << later->unread();
}

TEST_P(Conformance, waits_that_end_leave_nothing_behind) {
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client waiting = open({}, events);
    Lease lease = take(holder, key_, options(30s));

    Pending cancelled = wait_behind(waiting, *events, key_, options(30s, patience));
    cancelled.cancel();
    auto answer = cancelled.get();
    ASSERT_FALSE(answer);
    EXPECT_EQ(word(answer.error()), "cancelled");
    EXPECT_EQ(holder.show(key_).value().waiter_count, 0U);

    const TimePoint start = BootClock::now();
    const auto timed_out = waiting.mutex(key_).try_acquire(options(30s, 300ms));
    ASSERT_FALSE(timed_out);
    EXPECT_EQ(word(timed_out.error()), "timed_out");
    EXPECT_GE(since(start), 299ms);
    EXPECT_EQ(holder.show(key_).value().waiter_count, 0U);

    ASSERT_TRUE(lease.release());
    expect_free(holder, key_, 0ms);
}

TEST_P(Conformance, a_cancel_that_races_the_grant_leaves_the_lock_held_or_free) {
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client waiting = open({}, events);
    int granted = 0;
    for (int i = 0; i < 60; ++i) {
        Lease lease = take(holder, key_, options(30s));
        Pending waiter = wait_behind(waiting, *events, key_, options(30s, patience));
        std::promise<void> released;
        const auto release = [&] { lease.start_release([&](const Result<void>&) { released.set_value(); }); };
        if (i % 2 == 0) release();
        waiter.cancel();
        if (i % 2 != 0) release();
        released.get_future().wait();
        auto got = waiter.get();
        if (got) {
            ++granted;
            EXPECT_TRUE(got->held());
            expect_contended(holder, key_);
            EXPECT_TRUE(got->release());
        } else {
            EXPECT_EQ(word(got.error()), "cancelled") << got.error().message();
        }
        const auto next = holder.mutex(key_).try_acquire(options(30s));
        ASSERT_TRUE(next) << "round " << i << (got ? " granted" : " cancelled") << ": "
                          << next.error().message();
    }
    EXPECT_LT(granted, 60) << "no cancel came first";
}

TEST_P(Conformance, a_release_wakes_at_most_one_of_four_hundred_waiters) {
    DLOCK_NEEDS(Need::lines);
    constexpr std::size_t clients = 20;
    constexpr std::size_t waiters_each = 20;
    const auto plan = std::make_shared<FaultPlan>();
    Arrivals arrivals;
    const Client holder = open();
    std::vector<Client> all;
    Lease lease = take(holder, key_, options(60s));
    for (std::size_t i = 0; i < clients; ++i) {
        const auto events = std::make_shared<Recorder>();
        all.push_back(open_faulty(plan, {}, events));
        for (std::size_t k = 0; k < waiters_each; ++k)
            arrivals.start(all.back(), key_, options(60s, 3 * patience));
        ASSERT_TRUE(events->wait_for(Event::Kind::waiting, 1));
    }
    const std::size_t pushes_before = plan->pushes();
    const std::size_t asked_before = plan->calls(Op::acquire);
    const TimePoint start = BootClock::now();
    ASSERT_TRUE(lease.release());
    for (std::size_t served = 0; served < clients * waiters_each; ++served) {
        auto got = arrivals.next();
        ASSERT_TRUE(got) << "nobody was woken after " << served;
        ASSERT_TRUE(*got) << got->error().message();
        ASSERT_TRUE((*got)->release());
    }
    // One wake-up and one or two questions a release; the rest are looks that fell into the time.
    const auto looks = static_cast<std::size_t>(since(start) / 1s + 2) * clients;
    EXPECT_LE(plan->pushes() - pushes_before, clients * waiters_each + looks);
    EXPECT_LE(plan->calls(Op::acquire) - asked_before, 2 * clients * waiters_each + looks);
}

TEST_P(Conformance, with_every_wake_up_lost_a_waiter_is_served_by_its_own_look) {
    DLOCK_NEEDS(Need::lines);
    const auto plan = std::make_shared<FaultPlan>();
    plan->swallow_pushes([] { return true; });
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client waiting = open_faulty(plan, {}, events);
    for (int i = 0; i < 3; ++i) {
        Lease lease = take(holder, key_, options(30s));
        const std::size_t looks = plan->answered(Op::renew);
        Pending waiter = wait_behind(waiting, *events, key_, options(30s, patience));
        // Its first look comes soon after it was queued; the next one has to find the lock free.
        ASSERT_TRUE(plan->wait_for_answered(Op::renew, looks + 1));
        const TimePoint start = BootClock::now();
        ASSERT_TRUE(lease.release());
        auto got = waiter.get();
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_LT(since(start), look + 2s);
        EXPECT_TRUE(got->release());
    }
}

TEST_P(Conformance, with_the_notification_channel_cut_at_random_waiters_are_still_served) {
    DLOCK_NEEDS(Need::lines, Need::cut_notifications);
    const auto plan = std::make_shared<FaultPlan>();
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client waiting = open_faulty(plan, {}, events);
    std::mt19937 random(11);
    for (int i = 0; i < 10; ++i) {
        Lease lease = take(holder, key_, options(30s));
        const std::size_t looks = plan->answered(Op::renew);
        Pending waiter = wait_behind(waiting, *events, key_, options(30s, patience));
        if (random() % 2 == 0) {
            ASSERT_TRUE(plan->wait_for_answered(Op::renew, looks + 1));
        }
        const bool before = random() % 2 == 0;
        if (before) store().cut_notifications();
        const TimePoint start = BootClock::now();
        ASSERT_TRUE(lease.release());
        if (!before) store().cut_notifications();
        auto got = waiter.get();
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_LT(since(start), look + 2s);
        EXPECT_TRUE(got->release());
    }
}

TEST_P(Conformance, without_a_line_waiters_are_served_too) {
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client waiting = open({}, events);
    Lease lease = take(holder, key_, options(30s));
    Pending waiter = wait_behind(waiting, *events, key_, options(30s, patience));
    const TimePoint start = BootClock::now();
    ASSERT_TRUE(lease.release());
    auto got = waiter.get();
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_LT(since(start), look + 2s);
    expect_higher(lease.fence(), got->fence());
}

}  // namespace dlock::conformance
