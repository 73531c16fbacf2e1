// SPDX-License-Identifier: Apache-2.0
/// The public API over the memory store: what needs no second process and no broken store.
#include <condition_variable>
#include <future>
#include <mutex>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlock/dlock.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

template <class T>
concept HasLock = requires(T t) {
    t.lock();
};
template <class T>
concept HasUnlock = requires(T t) {
    t.unlock();
};
static_assert(!HasLock<Mutex> && !HasUnlock<Mutex>);
static_assert(HasLock<StdMutex> && HasUnlock<StdMutex>);
static_assert(!std::is_copy_constructible_v<Lease> && std::is_nothrow_move_constructible_v<Lease>);

class Recorder : public Observer {
public:
    void on_event(const Event& event) noexcept override {
        const std::lock_guard lock(mutex_);
        kinds_.push_back(event.kind);
        changed_.notify_all();
    }
    bool wait_for(Event::Kind kind) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(
            lock, 10s, [&] { return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end(); });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Event::Kind> kinds_;
};

class EngineTest : public testing::Test {
protected:
    std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
    Client client = Client::open("memory:engine-test", {}, Identity{"tests"}, recorder).value();
    Mutex mutex = client.mutex(Key{"orders/4711"});
};

/// Waits until the token is stopped.
bool stopped(const std::stop_token& token) {
    std::promise<void> told;
    const std::stop_callback callback(token, [&] { told.set_value(); });
    return told.get_future().wait_for(10s) == std::future_status::ready;
}

TEST_F(EngineTest, a_held_lock_is_held_and_a_second_one_is_contended) {
    const Lease lease = mutex.acquire();
    EXPECT_TRUE(lease.held());
    EXPECT_TRUE(lease.valid_for(1s));
    EXPECT_FALSE(lease.valid_for(31s));
    EXPECT_TRUE(lease.fence());
    const auto second = mutex.try_acquire();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error(), errc::contended);
    EXPECT_THAT(second.error().detail, HasSubstr("tests on "));
}

TEST_F(EngineTest, the_end_of_the_scope_releases) {
    const auto first = mutex.acquire().fence();
    const Lease again = mutex.acquire();
    EXPECT_GT(again.fence(), first);
}

TEST_F(EngineTest, a_limited_wait_ends_with_timed_out_and_leaves_no_place_in_line) {
    const Lease lease = mutex.acquire();
    const auto start = BootClock::now();
    const auto got = mutex.try_acquire({.wait = 50ms});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error(), errc::timed_out);
    EXPECT_GE(BootClock::now() - start, 50ms);
    EXPECT_EQ(client.show(mutex.key())->waiter_count, 0U);
}

TEST_F(EngineTest, a_stop_token_ends_the_wait) {
    const Lease lease = mutex.acquire();
    std::stop_source stop;
    std::jthread canceller([&] {
        recorder->wait_for(Event::Kind::waiting);
        stop.request_stop();
    });
    const auto got = mutex.try_acquire({.wait = forever}, Context(stop.get_token()));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error(), errc::cancelled);
    EXPECT_EQ(client.show(mutex.key())->waiter_count, 0U);
}

TEST_F(EngineTest, release_answers_once_and_the_same_again) {
    Lease lease = mutex.acquire();
    EXPECT_TRUE(lease.release());
    EXPECT_FALSE(lease.held());
    EXPECT_TRUE(lease.release());
    EXPECT_FALSE(lease.lost().stop_requested());
    EXPECT_TRUE(recorder->wait_for(Event::Kind::released));
}

TEST_F(EngineTest, a_forced_release_is_noticed_by_the_holder) {
    Lease lease = mutex.acquire({.lease = 300ms});
    const auto info = client.show(mutex.key());
    ASSERT_EQ(info->holders.size(), 1U);
    EXPECT_EQ(info->holders[0].public_id, lease.id().public_id());
    EXPECT_EQ(*client.force_release(mutex.key(), info->holders[0].public_id), Forced::done);
    EXPECT_TRUE(stopped(lease.lost()));
    EXPECT_FALSE(lease.held());
    EXPECT_THAT(lease.lost_reason(), HasSubstr("no longer has"));
    const auto released = lease.release();
    ASSERT_FALSE(released);
    EXPECT_EQ(released.error(), errc::lost);
    EXPECT_EQ(*client.force_release(mutex.key(), info->holders[0].public_id), Forced::already_free);
}

TEST_F(EngineTest, force_release_never_ends_another_grant_than_the_one_seen) {
    const std::string seen = mutex.acquire().id().public_id();
    const Lease next = mutex.acquire();
    EXPECT_EQ(*client.force_release(mutex.key(), seen), Forced::moved_on);
    EXPECT_TRUE(next.held());
}

TEST_F(EngineTest, without_renewal_the_lease_ends_and_is_told) {
    const Lease lease = mutex.acquire({.lease = 100ms, .renewing = Renewing::manual});
    EXPECT_TRUE(stopped(lease.lost()));
    EXPECT_FALSE(lease.held());
    EXPECT_TRUE(recorder->wait_for(Event::Kind::lost));
}

TEST_F(EngineTest, renewal_carries_a_lease_on) {
    const Lease lease = mutex.acquire({.lease = 200ms});
    const TimePoint first_end = lease.usable_until();
    EXPECT_TRUE(recorder->wait_for(Event::Kind::renewed));
    EXPECT_GT(lease.usable_until(), first_end);
}

TEST_F(EngineTest, manual_renewal_extends_now) {
    Lease lease = mutex.acquire({.renewing = Renewing::manual});
    const TimePoint first_end = lease.usable_until();
    EXPECT_TRUE(lease.renew());
    EXPECT_GT(lease.usable_until(), first_end);
}

TEST_F(EngineTest, a_detached_lock_stays_until_its_id_releases_it) {
    Lease lease = mutex.acquire();
    const std::string text = lease.detach().text();
    EXPECT_FALSE(lease.held());
    EXPECT_FALSE(mutex.try_acquire());
    const auto id = LeaseId::parse(text);
    ASSERT_TRUE(id);
    EXPECT_TRUE(client.renew(*id, 10s));
    EXPECT_TRUE(client.release(*id));
    const auto again = client.release(*id);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error(), errc::not_owner);
    EXPECT_TRUE(mutex.try_acquire());
}

TEST_F(EngineTest, close_cancels_waits_releases_leases_and_is_final) {
    Lease lease = mutex.acquire();
    std::promise<Result<Lease>> waited;
    mutex.start_acquire({.wait = forever}, {}, [&](Result<Lease> got) { waited.set_value(std::move(got)); });
    ASSERT_TRUE(recorder->wait_for(Event::Kind::waiting));
    EXPECT_TRUE(client.close());
    const auto got = waited.get_future().get();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error(), errc::cancelled);
    EXPECT_FALSE(lease.held());
    EXPECT_TRUE(lease.lost().stop_requested());
    const auto after = mutex.try_acquire();
    ASSERT_FALSE(after);
    EXPECT_EQ(after.error(), errc::cancelled);
    EXPECT_TRUE(Client::open("memory:engine-test").value().mutex(mutex.key()).try_acquire());
}

TEST_F(EngineTest, a_lease_may_outlive_its_client) {
    auto lease = std::optional(Client::open("memory:outlived").value().mutex(Key{"k"}).acquire());
    EXPECT_FALSE(lease->held());
    lease.reset();
}

TEST_F(EngineTest, a_client_may_be_closed_by_a_callback) {
    auto other = std::optional(Client::open("memory:closed-inside").value());
    std::promise<void> closed;
    other->mutex(Key{"k"}).start_acquire({}, {}, [&](Result<Lease>) {
        other.reset();
        closed.set_value();
    });
    EXPECT_EQ(closed.get_future().wait_for(10s), std::future_status::ready);
}

TEST_F(EngineTest, who_will_not_wait_does_not_overtake_local_waiters) {
    Lease lease = mutex.acquire();
    std::promise<Result<Lease>> waited;
    mutex.start_acquire({.wait = forever}, {}, [&](Result<Lease> got) { waited.set_value(std::move(got)); });
    ASSERT_TRUE(recorder->wait_for(Event::Kind::waiting));
    const auto impatient = mutex.try_acquire();
    ASSERT_FALSE(impatient);
    EXPECT_THAT(impatient.error().detail, HasSubstr("of this process wait"));
    EXPECT_TRUE(lease.release());
    EXPECT_TRUE(waited.get_future().get());
}

TEST_F(EngineTest, waiters_of_one_process_are_served_in_order) {
    auto lease = std::optional(mutex.acquire());
    std::mutex order_mutex;
    std::vector<int> order;
    std::promise<void> all;
    for (int i = 0; i < 20; ++i) {
        mutex.start_acquire({.wait = forever}, {}, [&, i](Result<Lease> got) {
            ASSERT_TRUE(got);
            std::unique_lock lock(order_mutex);
            order.push_back(i);
            const bool last = order.size() == 20;
            lock.unlock();
            if (last) all.set_value();
        });
    }
    lease.reset();
    ASSERT_EQ(all.get_future().wait_for(10s), std::future_status::ready);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(EngineTest, a_std_mutex_works_with_scoped_lock_and_unique_lock) {
    StdMutex standard(mutex);
    {
        const std::scoped_lock lock(standard);
        EXPECT_TRUE(standard.held());
        EXPECT_TRUE(standard.fence());
        StdMutex other(mutex);
        EXPECT_FALSE(other.try_lock());
    }
    EXPECT_FALSE(standard.held());
    const std::unique_lock lock(standard, std::try_to_lock);
    EXPECT_TRUE(lock.owns_lock());
}

TEST_F(EngineTest, bad_input_names_the_field) {
    const auto detail = [](const auto& got) { return got ? std::string("no error") : got.error().detail; };
    EXPECT_THAT(detail(client.mutex(Key{""}).try_acquire()), HasSubstr("key"));
    EXPECT_THAT(detail(client.mutex(Key{std::string(1025, 'x')}).try_acquire()), HasSubstr("key"));
    EXPECT_THAT(detail(mutex.try_acquire({.lease = 0ms})), HasSubstr("lease"));
    EXPECT_THAT(detail(mutex.try_acquire({.lease = -5s})), HasSubstr("lease"));
    EXPECT_THAT(detail(mutex.try_acquire({.lease = 99ms})), HasSubstr("minimum of 100 ms"));
    EXPECT_THAT(detail(mutex.try_acquire({.wait = -1ms})), HasSubstr("wait"));
    EXPECT_THAT(detail(mutex.try_acquire({.max_hold = 50ms})), HasSubstr("max_hold"));
    EXPECT_THAT(detail(mutex.try_acquire({.progress_within = 50ms})), HasSubstr("progress_within"));
    EXPECT_THAT(detail(mutex.try_acquire({.lease = std::chrono::milliseconds::max()})), HasSubstr("lease"));
    Context context;
    context.note = std::string(1025, 'n');
    EXPECT_THAT(detail(mutex.try_acquire({}, context)), HasSubstr("note"));
    EXPECT_THAT(detail(client.list({.limit = 0})), HasSubstr("limit"));
    EXPECT_FALSE(Client::open("memory:x", {.call_timeout = 0ms}));
    EXPECT_THAT(detail(Client::open("memory:x", {}, Identity(std::string(257, 's')))), HasSubstr("service"));
    EXPECT_THAT(detail(Client::open("memory:x", {}, Identity("\xff"))), HasSubstr("service"));
    EXPECT_FALSE(Client::open("nonsense"));
    EXPECT_TRUE(client.list()->locks.empty());
}

TEST_F(EngineTest, acquire_throws_what_try_acquire_returns) {
    const Lease lease = mutex.acquire();
    try {
        static_cast<void>(mutex.acquire({.wait = 0ms}));
        FAIL() << "did not throw";
    } catch (const LockError& error) {
        EXPECT_EQ(error.code(), errc::contended);
        EXPECT_EQ(error.fault(), Fault::none);
    }
}

}  // namespace
}  // namespace dlock
