// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include <unistd.h>

#include "conformance/fixture.hpp"
#include "core/ids.hpp"
#include "support/shared_counter.hpp"

namespace dlock::conformance {

TEST_P(Conformance, processes_exclude_each_other_under_load) {
    // Without a line a waiter only looks now and then, so the same load takes far longer.
    const int workers = has(Need::lines) ? 4 : 3;
    const int rounds = has(Need::lines) ? 40 : 8;
    const std::string file = (folder_.path() / "counter").string();
    const testing::SharedCounter counter(file);
    std::vector<std::unique_ptr<Worker>> all;
    for (int i = 0; i < workers; ++i) all.push_back(worker());
    for (const auto& one : all) {
        one->send("load " + std::to_string(rounds) + " 10000 " + file + ' ' + key_.text());
    }
    for (const auto& one : all) EXPECT_TRUE(one->expect("loaded", 3 * patience)) << one->unread();
    EXPECT_EQ(counter.overlaps(), 0U);
    EXPECT_EQ(counter.count(), static_cast<std::uint64_t>(workers * rounds));
    if (has(Need::fences)) {
        EXPECT_EQ(counter.fences_not_higher(), 0U);
    }
}

TEST_P(Conformance, threads_of_one_client_exclude_each_other) {
    testing::SharedCounter shared((folder_.path() / "counter").string());
    const Client client = open();
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < 25; ++round) {
                const Lease lease = take(client, key_, options(10s, 3 * patience));
                shared.work(lease.fence());
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(shared.overlaps(), 0U);
    EXPECT_EQ(shared.count(), 200U);
    if (has(Need::fences)) {
        EXPECT_EQ(shared.fences_not_higher(), 0U);
    }
}

TEST_P(Conformance, a_held_lock_is_contended_and_shows_its_holder) {
    const Client first = open();
    const Client second = open();
    Context context;
    context.biz_id = "order 4711";
    context.txid = "trace-1";
    context.note = "month's end";
    const Lease lease = first.mutex(key_).try_acquire(options(10s), context).value();
    EXPECT_TRUE(lease.held());
    expect_contended(second, key_);

    const LockInfo info = second.show(key_).value();
    ASSERT_EQ(info.holders.size(), 1U);
    EXPECT_EQ(info.problem, "");
    const HolderInfo& holder = info.holders.front();
    EXPECT_EQ(holder.public_id, lease.id().public_id());
    EXPECT_EQ(holder.fence, lease.fence());
    ASSERT_TRUE(holder.expires_in);
    EXPECT_LE(*holder.expires_in, 10s);
    EXPECT_GT(*holder.expires_in, 0s);
    DLOCK_NEEDS(Need::metadata);
    EXPECT_EQ(holder.owner.service, "conformance");
    EXPECT_EQ(holder.owner.pid, getpid());
    EXPECT_EQ(holder.owner.biz_id, context.biz_id);
    EXPECT_EQ(holder.owner.txid, context.txid);
    EXPECT_EQ(holder.owner.note, context.note);
}

TEST_P(Conformance, nobody_else_renews_or_releases) {
    const Client holder = open();
    const Client thief = open();
    Lease lease = take(holder, key_, options(10s));
    LeaseId::Secret guess{};
    core::random_bytes(guess.data(), guess.size());
    const LeaseId forged(key_, guess, lease.id().handle());

    const auto renewed = thief.renew(forged, 20s);
    ASSERT_FALSE(renewed);
    EXPECT_EQ(word(renewed.error()), "lost");
    const auto released = thief.release(forged);
    ASSERT_FALSE(released);
    EXPECT_EQ(word(released.error()), "not_owner");

    EXPECT_TRUE(lease.held());
    expect_contended(thief, key_);
    EXPECT_TRUE(lease.renew());
    EXPECT_TRUE(lease.release());
}

TEST_P(Conformance, an_expired_holder_neither_renews_nor_frees_the_next_ones_lock) {
    const Client first = open();
    const Client second = open();
    Lease old = take(first, key_, options(300ms, 0ms, Renewing::manual));
    const LeaseId id = old.id();
    Lease next = take(second, key_, options(30s, patience));
    EXPECT_FALSE(old.held());
    expect_higher(old.fence(), next.fence());

    EXPECT_EQ(word(old.renew().error()), "lost");
    EXPECT_EQ(word(first.renew(id, 10s).error()), "lost");
    EXPECT_FALSE(old.held());
    const auto by_id = first.release(id);
    ASSERT_FALSE(by_id);
    EXPECT_EQ(word(by_id.error()), "not_owner");
    const auto released = old.release();
    ASSERT_FALSE(released);
    EXPECT_TRUE(released.error() == errc::not_owner || released.error() == errc::lost);

    EXPECT_TRUE(next.held());
    EXPECT_TRUE(next.renew());
    expect_contended(first, key_);
    EXPECT_TRUE(next.release());
}

TEST_P(Conformance, extending_never_revives_a_lease_that_ended) {
    const Client client = open();
    const Client other = open();
    const Lease old = take(client, key_, options(300ms, 0ms, Renewing::manual));
    const LeaseId id = old.id();
    // Taken and freed by another: the key is free again, and only remembered.
    const auto between = expect_free(other, key_, patience);
    const auto renewed = client.renew(id, 10s);
    ASSERT_FALSE(renewed);
    EXPECT_EQ(word(renewed.error()), "lost");
    EXPECT_FALSE(old.held());
    const auto after = expect_free(other, key_, 0ms);
    expect_higher(between, after);
}

TEST_P(Conformance, extending_never_revives_a_lease_that_ended_and_that_nobody_took) {
    const Client client = open();
    const Client other = open();
    Lease old = take(client, key_, options(300ms, 0ms, Renewing::manual));
    // What was taken later for as long, and has ended by the same clock, says that the first has ended too.
    const Key later("conformance/later");
    const Lease witness = take(client, later, options(300ms, 0ms, Renewing::manual));
    expect_free(other, later, patience);
    const auto renewed = client.renew(old.id(), 10s);
    ASSERT_FALSE(renewed);
    EXPECT_EQ(word(renewed.error()), "lost");
    EXPECT_EQ(word(old.renew().error()), "lost");
    EXPECT_FALSE(old.held());
    expect_higher(old.fence(), expect_free(other, key_, 0ms));
}

TEST_P(Conformance, fences_rise_from_grant_to_grant_across_clients) {
    const Client one = open();
    const Client two = open();
    std::optional<Fence> last = expect_free(one, key_, 0ms);
    for (int i = 0; i < 20; ++i) {
        const auto next = expect_free(i % 2 == 0 ? two : one, key_, 0ms);
        expect_higher(last, next);
        last = next;
    }
}

TEST_P(Conformance, std_mutex_keeps_a_second_process_out) {
    const Client client = open();
    const auto other = worker();
    const std::string try_it = "acquire a 5000 0 automatic " + key_.text();
    StdMutex mutex(client.mutex(key_), options(10s, patience));
    {
        const std::scoped_lock lock(mutex);
        EXPECT_TRUE(mutex.held());
        EXPECT_EQ(other->ask(try_it, "refused a"), "contended") << other->unread();
    }
    EXPECT_TRUE(other->ask(try_it, "granted a")) << other->unread();
    EXPECT_FALSE(mutex.try_lock());
}

TEST_P(Conformance, forced_release_ends_only_the_grant_that_was_seen) {
    const Client one = open();
    const Client two = open();
    Lease first = take(one, key_, options(10s));
    const std::string seen = two.show(key_).value().holders.at(0).public_id;
    EXPECT_TRUE(first.release());
    EXPECT_EQ(two.force_release(key_, seen).value(), Forced::already_free);

    Lease second = take(two, key_, options(1500ms));
    EXPECT_EQ(one.force_release(key_, seen).value(), Forced::moved_on);
    EXPECT_TRUE(second.renew());

    LossWatch loss(second);
    EXPECT_EQ(one.force_release(key_, second.id().public_id()).value(), Forced::done);
    const auto next = expect_free(one, key_, patience);
    expect_higher(second.fence(), next);
    EXPECT_TRUE(loss.wait());
    EXPECT_FALSE(second.held());
    EXPECT_NE(second.lost_reason(), "");
}

TEST_P(Conformance, a_nested_acquire_of_one_transaction_fails_at_once) {
    const Client client = open();
    Context context;
    context.txid = "trace-1";
    const Lease outer = client.mutex(key_).try_acquire(options(10s), context).value();
    const auto inner = client.mutex(key_).try_acquire(options(10s, 10s), context);
    ASSERT_FALSE(inner);
    EXPECT_EQ(word(inner.error()), "would_deadlock");
    EXPECT_TRUE(outer.held());
}

}  // namespace dlock::conformance
