// SPDX-License-Identifier: Apache-2.0
#include "conformance/fixture.hpp"

namespace dlock::conformance {

namespace {

/// Time enough that a busy machine's late thread is not taken for a late loss; the margin is ours to use up.
constexpr milliseconds long_lease = 3s;

/// When the store may give the lock away at the earliest: what no loss may come after.
TimePoint lease_end(const Lease& lease, milliseconds length) { return lease.usable_until() + margin(length); }

}  // namespace

TEST_P(Conformance, a_record_deleted_by_hand_is_a_loss_told_at_the_next_renewal) {
    DLOCK_NEEDS(Need::delete_record);
    const Client holder = open();
    const Client next = open();
    Lease lease = take(holder, key_, options(long_lease));
    LossWatch loss(lease);
    const TimePoint end = lease_end(lease, long_lease);
    store().delete_record(key_);
    const auto told = loss.wait();
    ASSERT_TRUE(told);
    EXPECT_LE(*told, end);
    EXPECT_FALSE(lease.held());
    EXPECT_NE(lease.lost_reason(), "");
    const auto released = lease.release();
    ASSERT_FALSE(released);
    EXPECT_TRUE(released.error() == errc::lost || released.error() == errc::not_owner);
    expect_higher(lease.fence(), expect_free(next, key_, 1s));
}

TEST_P(Conformance, a_flushed_store_loses_its_locks_and_goes_on_with_higher_fences) {
    DLOCK_NEEDS(Need::flush);
    const Client holder = open();
    const Client next = open();
    Lease lease = take(holder, key_, options(long_lease));
    LossWatch loss(lease);
    const TimePoint end = lease_end(lease, long_lease);
    store().flush();
    const auto told = loss.wait();
    ASSERT_TRUE(told);
    EXPECT_LE(*told, end);
    EXPECT_FALSE(lease.held());
    const auto after = expect_free(next, key_, patience);
    expect_higher(lease.fence(), after);
    expect_higher(after, expect_free(holder, key_, patience));
}

TEST_P(Conformance, a_restart_that_keeps_data_keeps_the_lock) {
    DLOCK_NEEDS(Need::restart_with_data);
    const auto events = std::make_shared<Recorder>();
    const Client holder = open({}, events);
    const Client other = open();
    Lease lease = take(holder, key_, options(5s));
    const LossWatch loss(lease);
    store().restart_with_data();
    const auto before = events->count(Event::Kind::renewed);
    EXPECT_TRUE(events->wait_for(Event::Kind::renewed, before + 2));
    EXPECT_FALSE(loss.told());
    EXPECT_TRUE(lease.held());
    const auto got = other.mutex(key_).try_acquire(options(1s, 2s));
    ASSERT_FALSE(got) << "two hold the lock";
    EXPECT_TRUE(lease.release());
    expect_higher(lease.fence(), expect_free(other, key_, patience));
}

TEST_P(Conformance, a_restart_without_data_is_told_and_fences_still_rise) {
    DLOCK_NEEDS(Need::restart_without_data);
    const Client holder = open();
    const Client other = open();
    Lease lease = take(holder, key_, options(long_lease));
    LossWatch loss(lease);
    store().restart_without_data();
    ASSERT_TRUE(loss.wait());
    EXPECT_FALSE(lease.held());
    EXPECT_NE(lease.lost_reason(), "");
    expect_higher(lease.fence(), expect_free(other, key_, patience));
}

TEST_P(Conformance, a_waiter_outlasts_a_restart_of_the_store) {
    DLOCK_NEEDS(Need::restart_with_data, Need::lines);
    const auto events = std::make_shared<Recorder>();
    const Client holder = open();
    const Client waiting = open({}, events);
    Lease lease = take(holder, key_, options(10s));
    Pending waiter = wait_behind(waiting, *events, key_, options(10s, patience));
    store().restart_with_data();
    EXPECT_FALSE(waiter.ready());
    const auto released = lease.release();
    EXPECT_TRUE(released) << released.error().message();
    auto got = waiter.get();
    ASSERT_TRUE(got) << got.error().message();
    expect_higher(lease.fence(), got->fence());
}

TEST_P(Conformance, a_store_that_refuses_writes_grants_nothing_and_ends_no_lease_early) {
    DLOCK_NEEDS(Need::read_only);
    const auto events = std::make_shared<Recorder>();
    const Client holder = open({}, events);
    const Client other = open();
    Lease lease = take(holder, key_, options(6s));
    const LossWatch loss(lease);
    store().refuse_writes();
    const Key free_key("conformance/free");
    const auto refused = other.mutex(free_key).try_acquire(options(1s));
    ASSERT_FALSE(refused);
    EXPECT_EQ(word(refused.error()), "unavailable") << refused.error().message();
    EXPECT_FALSE(lease.renew());
    EXPECT_TRUE(lease.held()) << "a refused renewal is no loss while time is left";
    store().accept_writes();

    const auto before = events->count(Event::Kind::renewed);
    EXPECT_TRUE(events->wait_for(Event::Kind::renewed, before + 1));
    EXPECT_FALSE(loss.told());
    EXPECT_TRUE(lease.held());
    EXPECT_TRUE(lease.release());
    expect_free(other, free_key, patience);
}

TEST_P(Conformance, a_store_that_refuses_writes_for_a_whole_lease_is_a_loss_told_in_time) {
    DLOCK_NEEDS(Need::read_only);
    const Client holder = open();
    Lease lease = take(holder, key_, options(2s));
    LossWatch loss(lease);
    store().refuse_writes();
    const auto told = loss.wait();
    ASSERT_TRUE(told);
    EXPECT_FALSE(lease.held());
    store().accept_writes();
    expect_higher(lease.fence(), expect_free(open(), key_, patience));
}

TEST_P(Conformance, with_the_store_frozen_the_loss_is_told_by_the_end_of_the_lease) {
    DLOCK_NEEDS(Need::freeze);
    const auto events = std::make_shared<Recorder>();
    const Client holder = open({}, events);
    Lease lease = take(holder, key_, options(4s));
    LossWatch loss(lease);
    ASSERT_TRUE(events->wait_for(Event::Kind::renewed, 1));
    store().freeze();
    // A renewal that was answered just now may still move it; what is read after the loss is cleared.
    TimePoint usable_until = lease.usable_until();
    while (!loss.told() && !events->wait_for(Event::Kind::late, 1, nullptr, 1ms)) {
        usable_until = std::max(usable_until, lease.usable_until());
    }
    const auto told = loss.wait();
    ASSERT_TRUE(told);
    EXPECT_GE(*told, usable_until) << "lost while margin remained";
    EXPECT_LE(*told, usable_until + margin(4s)) << "told after another may have got it";
    EXPECT_FALSE(lease.held());
    EXPECT_EQ(lease.usable_until(), TimePoint::min());
    store().thaw();
    expect_higher(lease.fence(), expect_free(open(), key_, patience));
}

TEST_P(Conformance, with_the_store_frozen_nothing_is_granted_and_waits_end) {
    DLOCK_NEEDS(Need::freeze);
    ClientOptions impatient;
    impatient.call_timeout = 300ms;
    impatient.unavailable_after = 1s;
    const Client client = open(impatient);
    expect_free(client, key_, 0ms);
    store().freeze();
    const TimePoint start = BootClock::now();
    const auto at_once = client.mutex(key_).try_acquire(options(2s));
    ASSERT_FALSE(at_once);
    EXPECT_TRUE(at_once.error() == errc::unavailable || at_once.error() == errc::unknown_outcome)
        << at_once.error().message();
    EXPECT_LT(since(start), 4s);
    const auto waited = client.mutex(Key("conformance/other")).try_acquire(options(2s, 60s));
    ASSERT_FALSE(waited);
    EXPECT_TRUE(waited.error() == errc::unavailable || waited.error() == errc::unknown_outcome)
        << waited.error().message();
    EXPECT_LT(since(start), patience);
    store().thaw();
    // Whatever the frozen store still had in its buffers, nobody holds: the client withdraws or the lease
    // ends.
    expect_free(open(), key_, patience);
    expect_free(open(), Key("conformance/other"), patience);
}

}  // namespace dlock::conformance
