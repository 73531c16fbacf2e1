// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <thread>

#include "conformance/fixture.hpp"
#include "support/shared_counter.hpp"

namespace dlock::conformance {

namespace {

ClientOptions quick() {
    ClientOptions options;
    options.call_timeout = 100ms;
    options.close_within = 1s;
    return options;
}

constexpr milliseconds lease_time = 1s;
/// An acquire without answer is settled within min(lease/2, 1 s); the rest is for busy machines.
constexpr milliseconds settled = lease_time / 2 + 5s;

/// Runs `script` with call 1 harmed, then call 2, ... until it made fewer calls than that, for each harm.
void at_every_call(const std::function<void(const std::shared_ptr<FaultPlan>&)>& script) {
    for (const Harm harm : testing::harms_of_one_call) {
        for (std::size_t n = 1;; ++n) {
            SCOPED_TRACE(std::string(to_string(harm)) + " at call " + std::to_string(n));
            ASSERT_LT(n, 40U) << "the script does not end";
            const auto plan = std::make_shared<FaultPlan>();
            plan->fail_nth(n, harm);
            script(plan);
            if (::testing::Test::HasFatalFailure()) return;
            if (plan->fired() == 0) break;
        }
    }
}

}  // namespace

TEST_P(Conformance, a_call_lost_at_any_step_of_acquire_renew_release_breaks_nothing) {
    const Client honest = open();
    std::optional<Fence> last;
    at_every_call([&](const std::shared_ptr<FaultPlan>& plan) {
        const Client client = open_faulty(plan, quick());
        const TimePoint start = BootClock::now();
        auto got = client.mutex(key_).try_acquire(options(lease_time, 0ms, Renewing::manual));
        EXPECT_LT(since(start), settled);
        if (got) {
            EXPECT_TRUE(got->held() || since(start) > lease_time / 2);
            if (got->held()) expect_contended(honest, key_);
            if (got->fence()) last = got->fence();
            const auto renewed = got->renew();
            EXPECT_TRUE(renewed || renewed.error() == errc::unavailable ||
                        renewed.error() == errc::unknown_outcome || !got->held())
                << renewed.error().message();
            const auto released = got->release();
            EXPECT_TRUE(released || released.error() == errc::unknown_outcome ||
                        released.error() == errc::unavailable || since(start) > lease_time / 2)
                << released.error().message();
        } else {
            EXPECT_TRUE(got.error() == errc::unavailable || got.error() == errc::unknown_outcome)
                << got.error().message();
        }
        const auto next = expect_free(honest, key_, patience);
        if (last) expect_higher(last, next);
        last = next;
    });
}

TEST_P(Conformance, a_call_lost_at_any_step_of_a_wait_breaks_nothing) {
    const Client honest = open();
    at_every_call([&](const std::shared_ptr<FaultPlan>& plan) {
        Lease holder = take(honest, key_, options(20s, patience));
        const auto waiting = std::make_shared<Recorder>();
        const Client client = open_faulty(plan, quick(), waiting);
        Pending waiter(client, key_, options(5s, patience));
        // A wait that goes wrong at its first step never says that it waits; it ends instead, or starts
        // again.
        waiting->wait_for(Event::Kind::waiting, 1, nullptr, 300ms);
        EXPECT_FALSE(waiter.ready()) << "the wait ended before the lock was free";
        const auto before = holder.fence();
        EXPECT_TRUE(holder.release());
        auto got = waiter.get();
        ASSERT_TRUE(got) << got.error().message();
        EXPECT_TRUE(got->held());
        expect_higher(before, got->fence());
        expect_contended(honest, key_);
        static_cast<void>(got->release());
        expect_higher(got->fence(), expect_free(honest, key_, patience));
    });
}

TEST_P(Conformance, a_call_lost_at_any_step_of_a_withdrawal_leaves_nothing) {
    const Client honest = open();
    at_every_call([&](const std::shared_ptr<FaultPlan>& plan) {
        Lease holder = take(honest, key_, options(20s, patience));
        const auto waiting = std::make_shared<Recorder>();
        const Client client = open_faulty(plan, quick(), waiting);
        Pending waiter(client, key_, options(5s, patience));
        waiting->wait_for(Event::Kind::waiting, 1, nullptr, 300ms);
        waiter.cancel();
        const auto got = waiter.get();
        ASSERT_FALSE(got);
        EXPECT_TRUE(got.error() == errc::cancelled || got.error() == errc::unknown_outcome ||
                    got.error() == errc::unavailable)
            << got.error().message();
        EXPECT_TRUE(holder.release());
        expect_free(honest, key_, patience);
        // The place in line is withdrawn, if only by the end of its own lease.
        EXPECT_EQ(honest.show(key_).value().waiter_count, 0U);
    });
}

TEST_P(Conformance, with_calls_failing_at_random_two_never_hold_at_once) {
    testing::SharedCounter counter((folder_.path() / "counter").string());
    std::atomic<int> grants{0};
    std::vector<std::thread> threads;
    for (unsigned seed = 1; seed <= 4; ++seed) {
        threads.emplace_back([&, seed] {
            const auto plan = std::make_shared<FaultPlan>();
            plan->set([random = std::mt19937(seed)](Op, std::size_t) mutable {
                const auto dice = random() % 40;
                return dice < testing::harms_of_one_call.size() ? testing::harms_of_one_call.at(dice)
                                                                : Harm::none;
            });
            const Client client = open_faulty(plan, quick());
            const TimePoint start = BootClock::now();
            while (since(start) < 4s) {
                auto got = client.mutex(key_).try_acquire(options(3s, 2s));
                if (!got) continue;
                ++grants;
                // The work is far shorter than what is left of the lease, or is not begun.
                if (got->valid_for(1500ms)) counter.work(got->fence());
                static_cast<void>(got->release());
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(counter.overlaps(), 0U);
    EXPECT_GE(grants.load(), 4);
    if (has(Need::fences)) {
        EXPECT_EQ(counter.fences_not_higher(), 0U);
    }
    expect_free(open(), key_, patience);
}

}  // namespace dlock::conformance
