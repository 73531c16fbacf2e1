// SPDX-License-Identifier: Apache-2.0
#include <list>

#include "conformance/fixture.hpp"

namespace dlock::conformance {

namespace {

ClientOptions quick() {
    ClientOptions options;
    options.call_timeout = 200ms;
    return options;
}

/// Harms each renewal whose number the rule picks.
FaultPlan::Rule on_renewals(std::function<bool(std::size_t)> picked, Harm harm) {
    auto seen = std::make_shared<std::atomic<std::size_t>>(0);
    return [seen, picked = std::move(picked), harm](Op op, std::size_t) {
        return op == Op::renew && picked(++*seen) ? harm : Harm::none;
    };
}

}  // namespace

TEST_P(Conformance, single_renewals_that_go_wrong_lose_nothing) {
    struct Run {
        Harm harm{};
        std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
        std::shared_ptr<Recorder> events = std::make_shared<Recorder>();
        std::optional<Lease> lease;
        std::optional<LossWatch> loss;
    };
    std::list<Run> runs;
    std::vector<Client> clients;
    for (const Harm harm : testing::harms_of_one_call) {
        Run& run = runs.emplace_back();
        run.harm = harm;
        run.plan->set(on_renewals([](std::size_t n) { return n % 2 == 1; }, harm));
        clients.push_back(open_faulty(run.plan, quick(), run.events));
        run.lease = take(clients.back(), Key("conformance/" + std::string(to_string(harm))), options(2s));
        run.loss.emplace(*run.lease);
    }
    const Client other = open();
    for (Run& run : runs) {
        SCOPED_TRACE(to_string(run.harm));
        EXPECT_TRUE(run.events->wait_for(Event::Kind::renewed, 3));
        EXPECT_GE(run.plan->fired(), 2U);
        EXPECT_FALSE(run.loss->told()) << run.lease->lost_reason();
        EXPECT_TRUE(run.lease->held());
        expect_contended(other, run.lease->key());
        EXPECT_TRUE(run.lease->release());
        expect_free(other, run.lease->key(), 1s);
    }
}

TEST_P(Conformance, late_answers_of_renewals_count_from_their_own_sending) {
    constexpr milliseconds lease_time = 2s;
    const auto plan = std::make_shared<FaultPlan>();
    plan->delay = 400ms;  // past the repeat, which comes after a tenth of the lease
    const auto events = std::make_shared<Recorder>();
    const Client client = open_faulty(plan, {}, events);
    Lease lease = take(client, key_, options(lease_time));
    const LossWatch loss(lease);
    plan->set(on_renewals([](std::size_t) { return true; }, Harm::late));
    for (std::size_t i = 1; i <= 4; ++i) {
        ASSERT_TRUE(events->wait_for(Event::Kind::renewed, i));
        EXPECT_LE(lease.usable_until(), BootClock::now() + lease_time - margin(lease_time) - plan->delay)
            << "counted from the answer";
    }
    EXPECT_FALSE(loss.told());
    EXPECT_TRUE(lease.release());
    expect_free(open(), key_, 1s);
}

TEST_P(Conformance, a_renewal_answered_after_the_loss_revives_nothing) {
    const auto plan = std::make_shared<FaultPlan>();
    plan->delay = 1500ms;
    const auto events = std::make_shared<Recorder>();
    const Client client = open_faulty(plan, {}, events);
    plan->set(on_renewals([](std::size_t) { return true; }, Harm::late));
    Lease lease = take(client, key_, options(1s));
    LossWatch loss(lease);
    ASSERT_TRUE(loss.wait());
    ASSERT_TRUE(plan->wait_for_answered(Op::renew, 2));
    EXPECT_FALSE(lease.held());
    EXPECT_EQ(lease.usable_until(), TimePoint::min());
    EXPECT_EQ(events->count(Event::Kind::renewed), 0U);
    EXPECT_FALSE(lease.release());
    expect_free(open(), key_, patience);
}

TEST_P(Conformance, a_released_lease_is_not_renewed_any_more) {
    const auto plan = std::make_shared<FaultPlan>();
    const auto clock = std::make_shared<Recorder>();
    const Client client = open_faulty(plan);
    const Client other = open({}, clock);
    Lease lease = take(client, key_, options(1200ms));
    ASSERT_TRUE(plan->wait_for_answered(Op::renew, 1));
    ASSERT_TRUE(lease.release());
    const std::size_t calls = plan->calls(Op::renew);
    // Another lease of the same length tells when renewals would have been due.
    const Lease same = take(other, Key("conformance/clock"), options(1200ms));
    ASSERT_TRUE(clock->wait_for(Event::Kind::renewed, 2));
    EXPECT_EQ(plan->calls(Op::renew), calls);
}

TEST_P(Conformance, a_grant_found_by_a_repeat_counts_from_the_first_sending) {
    for (const Harm harm : {Harm::unknown_after, Harm::silent_after}) {
        SCOPED_TRACE(to_string(harm));
        const auto plan = std::make_shared<FaultPlan>();
        ClientOptions slow;
        slow.call_timeout = 400ms;  // by so much it would count from too late
        const Client client = open_faulty(plan, slow);
        const Client other = open();
        plan->fail_nth(1, harm);
        const auto got = client.mutex(key_).try_acquire(options(1s, 0ms, Renewing::manual));
        EXPECT_EQ(plan->fired(), 1U);
        Lease next = take(other, key_, options(5s, patience));
        EXPECT_FALSE(got && got->held()) << "two hold the lock";
        EXPECT_TRUE(next.release());
    }
}

TEST_P(Conformance, with_every_renewal_black_holed_the_loss_comes_neither_early_nor_late) {
    constexpr milliseconds lease_time = 1500ms;
    for (const Harm harm : {Harm::silent_before, Harm::unknown_before, Harm::refused}) {
        SCOPED_TRACE(to_string(harm));
        const auto plan = std::make_shared<FaultPlan>();
        const Client client = open_faulty(plan, quick());
        const Client other = open();
        plan->set(on_renewals([](std::size_t) { return true; }, harm));
        Lease lease = take(client, key_, options(lease_time));
        const TimePoint usable_until = lease.usable_until();
        LossWatch loss(lease);
        const Lease next = take(other, key_, options(5s, patience));
        const bool still_held = lease.held();
        EXPECT_FALSE(still_held) << "two hold the lock";
        const auto told = loss.wait();
        ASSERT_TRUE(told);
        EXPECT_GE(*told, usable_until) << "lost while margin remained";
        EXPECT_LT(*told, usable_until + 2s);
        EXPECT_GE(plan->fired(), 2U) << "an unanswered renewal was not repeated";
        EXPECT_TRUE(next.held());
    }
}

TEST_P(Conformance, renewals_that_work_but_are_never_answered_still_end_the_lease) {
    constexpr milliseconds lease_time = 1s;
    const auto plan = std::make_shared<FaultPlan>();
    const Client client = open_faulty(plan, quick());
    plan->set(on_renewals([](std::size_t) { return true; }, Harm::silent_after));
    const Lease lease = take(client, key_, options(lease_time));
    const TimePoint usable_until = lease.usable_until();
    LossWatch loss(lease);
    const auto told = loss.wait();
    ASSERT_TRUE(told);
    EXPECT_GE(*told, usable_until);
    EXPECT_FALSE(lease.held());
    // The store believes in a later end; it passes, since nothing renews a lost lease.
    expect_higher(lease.fence(), expect_free(open(), key_, patience));
}

TEST_P(Conformance, hundreds_of_leases_in_one_client_are_all_renewed_in_few_calls) {
    constexpr std::size_t count = 300;
    const auto plan = std::make_shared<FaultPlan>();
    const auto events = std::make_shared<Recorder>();
    ClientOptions patient;
    patient.call_timeout = 5s;
    const Client client = open_faulty(plan, patient, events);
    std::vector<Lease> leases;
    for (std::size_t i = 0; i < count; ++i) {
        leases.push_back(take(client, Key("conformance/many/" + std::to_string(i)), options(4s)));
    }
    const std::size_t calls_before = plan->calls(Op::renew);
    const std::size_t renewed_before = events->count(Event::Kind::renewed);
    ASSERT_TRUE(events->wait_for(Event::Kind::renewed, renewed_before + 3 * count, nullptr, 60s));
    const std::size_t calls = plan->calls(Op::renew) - calls_before;
    EXPECT_LT(calls, count) << "renewals are not batched";
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_TRUE(leases.at(i).held()) << leases.at(i).key().text();
        EXPECT_GE(events->count(Event::Kind::renewed, &leases.at(i).key()), 1U);
    }
    EXPECT_EQ(events->count(Event::Kind::lost), 0U);
}

TEST_P(Conformance, a_lock_is_free_when_max_hold_is_over_whatever_its_holder_does) {
    constexpr milliseconds most = 2s;
    const auto events = std::make_shared<Recorder>();
    const Client holder = open({}, events);
    const Client next = open();
    auto limited = options(1s);
    limited.max_hold = most;
    const TimePoint before = BootClock::now();
    Lease lease = take(holder, key_, limited);
    LossWatch loss(lease);
    const auto fence = expect_free(next, key_, most + 2s);
    const auto told = loss.wait();
    ASSERT_TRUE(told);
    EXPECT_GE(*told, before + most - margin(1s) - 100ms) << "it was renewed as long as it could be";
    EXPECT_LE(*told, before + most + 500ms);
    EXPECT_GE(events->count(Event::Kind::renewed), 2U);
    EXPECT_NE(lease.lost_reason().find("max_hold"), std::string::npos) << lease.lost_reason();
    EXPECT_FALSE(lease.held());
    expect_higher(lease.fence(), fence);
}

TEST_P(Conformance, a_lock_whose_work_tells_no_progress_is_free_after_progress_within) {
    constexpr milliseconds within = 1500ms;
    const auto events = std::make_shared<Recorder>();
    const Client holder = open({}, events);
    const Client next = open();
    auto limited = options(1s);
    limited.progress_within = within;
    Lease lease = take(holder, key_, limited);
    LossWatch loss(lease);
    // Each renewal is a piece of work done: past the limit it goes on for as long as that is told.
    const TimePoint start = BootClock::now();
    for (std::size_t n = 1; since(start) < 2 * within; ++n) {
        ASSERT_TRUE(events->wait_for(Event::Kind::renewed, n));
        lease.progress();
    }
    EXPECT_TRUE(lease.held());
    const TimePoint last = BootClock::now();
    lease.progress();
    static_cast<void>(expect_free(next, key_, within + 2s));
    const auto told = loss.wait();
    ASSERT_TRUE(told);
    EXPECT_LE(*told, last + within + 500ms);
    EXPECT_NE(lease.lost_reason().find("progress"), std::string::npos) << lease.lost_reason();
}

}  // namespace dlock::conformance
