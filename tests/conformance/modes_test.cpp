// SPDX-License-Identifier: Apache-2.0
/// Readers and writers.
#include <future>
#include <thread>

#include "conformance/fixture.hpp"
#include "support/shared_counter.hpp"

namespace dlock::conformance {

namespace {

using Answer = std::future<Result<Lease>>;

Answer write_later(const Client& client, const Key& key, AcquireOptions how) {
    return std::async(std::launch::async, [=] { return client.shared_mutex(key).try_acquire(how); });
}

Answer read_later(const Client& client, const Key& key, AcquireOptions how) {
    return std::async(std::launch::async, [=] { return client.shared_mutex(key).try_acquire_shared(how); });
}

Result<Lease> read_now(const Client& client, const Key& key, AcquireOptions how = options(30s)) {
    return client.shared_mutex(key).try_acquire_shared(how);
}

Result<Lease> write_now(const Client& client, const Key& key, AcquireOptions how = options(30s)) {
    return client.shared_mutex(key).try_acquire(how);
}

std::string refusal(const Result<Lease>& got) { return got ? "granted" : word(got.error()); }

}  // namespace

TEST_P(Conformance, readers_hold_together_and_a_writer_alone) {
    DLOCK_NEEDS(Need::modes);
    const Client one = open();
    const Client two = open();
    std::optional<Fence> last;
    {
        const Lease first = read_now(one, key_).value();
        const Lease second = read_now(one, key_).value();
        const Lease third = read_now(two, key_).value();
        expect_higher(first.fence(), second.fence());
        expect_higher(second.fence(), third.fence());
        last = third.fence();
        EXPECT_EQ(refusal(write_now(two, key_)), "contended");
        const LockInfo info = one.show(key_).value();
        EXPECT_EQ(info.kind, "read_write");
        ASSERT_EQ(info.holders.size(), 3U);
        EXPECT_EQ(info.holders[0].mode, "shared");
        EXPECT_EQ(info.holders[0].owner.service, "conformance");
    }
    const Lease writer = write_now(two, key_, options(30s, patience)).value();
    expect_higher(last, writer.fence());
    EXPECT_EQ(refusal(read_now(one, key_)), "contended");
    EXPECT_EQ(refusal(write_now(one, key_)), "contended");
    EXPECT_EQ(one.show(key_)->holders.at(0).mode, "write");
    EXPECT_EQ(refusal(one.mutex(key_).try_acquire(options(30s))), "limit_differs") << "another kind";
}

TEST_P(Conformance, a_waiting_writer_stops_later_readers_and_comes_after_the_last_one) {
    DLOCK_NEEDS(Need::modes, Need::lines);
    const Client one = open();
    const Client two = open();
    auto first = read_now(one, key_);
    auto second = read_now(two, key_);
    Answer writer = write_later(two, key_, options(30s, patience));
    ASSERT_TRUE(stand_in_line(one, key_, 1));
    EXPECT_EQ(refusal(read_now(one, key_)), "contended");
    Answer late_one = read_later(two, key_, options(30s, patience));
    Answer late_two = read_later(two, key_, options(30s, patience));
    ASSERT_TRUE(stand_in_line(one, key_, 3));
    ASSERT_TRUE(first->release());
    EXPECT_EQ(writer.wait_for(0s), std::future_status::timeout);
    ASSERT_TRUE(second->release());
    auto got = writer.get();
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(late_one.wait_for(0s), std::future_status::timeout);
    ASSERT_TRUE(got->release());
    const auto both = std::pair(late_one.get(), late_two.get());
    EXPECT_TRUE(both.first && both.second) << "the readers behind it come in together";
}

TEST_P(Conformance, a_writer_that_gives_up_lets_the_readers_behind_it_in) {
    DLOCK_NEEDS(Need::modes, Need::lines);
    const Client client = open();
    const Lease reader = read_now(client, key_).value();
    std::stop_source stop;
    auto writer = std::async(std::launch::async, [&] {
        return client.shared_mutex(key_).try_acquire(options(30s, patience), Context(stop.get_token()));
    });
    ASSERT_TRUE(stand_in_line(client, key_, 1));
    Answer late = read_later(client, key_, options(30s, patience));
    ASSERT_TRUE(stand_in_line(client, key_, 2));
    const TimePoint start = BootClock::now();
    stop.request_stop();
    EXPECT_EQ(refusal(writer.get()), "cancelled");
    EXPECT_TRUE(late.get());
    EXPECT_LT(since(start), 5s);
}

TEST_P(Conformance, the_writer_becomes_a_reader_without_letting_go) {
    DLOCK_NEEDS(Need::modes, Need::lines);
    const Client client = open();
    Lease lease = write_now(client, key_).value();
    const auto fence = lease.fence();
    Answer reader = read_later(client, key_, options(30s, patience));
    ASSERT_TRUE(stand_in_line(client, key_, 1));
    const auto done = client.shared_mutex(key_).downgrade(lease);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_TRUE(client.shared_mutex(key_).downgrade(lease)) << "nothing to do";
    const auto beside = reader.get();
    EXPECT_TRUE(beside) << beside.error().message();
    EXPECT_TRUE(lease.held());
    EXPECT_EQ(lease.fence(), fence);
    ASSERT_TRUE(lease.renew());
    EXPECT_TRUE(lease.release());
}

TEST_P(Conformance, only_the_single_reader_becomes_the_writer_and_never_waits) {
    DLOCK_NEEDS(Need::modes);
    const Client client = open();
    const Client other = open();
    SharedMutex mutex = client.shared_mutex(key_);
    Lease one = read_now(client, key_).value();
    Lease two = read_now(other, key_).value();
    for (Lease* lease : {&one, &two}) {
        const auto up = mutex.try_upgrade(*lease);
        ASSERT_FALSE(up);
        EXPECT_EQ(word(up.error()), "contended");
        EXPECT_TRUE(lease->held()) << "it stays a reader";
    }
    const auto seen = two.fence();
    ASSERT_TRUE(two.release());
    const auto up = mutex.try_upgrade(one);
    ASSERT_TRUE(up) << up.error().message();
    expect_higher(seen, one.fence());
    EXPECT_EQ(refusal(read_now(other, key_)), "contended");
    ASSERT_TRUE(one.renew());
    ASSERT_TRUE(one.release());
    EXPECT_EQ(word(mutex.try_upgrade(one).error()), "lost");
    expect_higher(one.fence(), write_now(other, key_).value().fence());
}

TEST_P(Conformance, a_killed_reader_holds_a_writer_up_for_one_lease_and_no_other_reader) {
    DLOCK_NEEDS(Need::modes, Need::processes);
    constexpr milliseconds lease = 1500ms;
    const Client client = open();
    const auto dead = worker();
    dead->ask("as shared 0", "as");
    ASSERT_TRUE(dead->acquire("a", lease, key_)) << dead->unread();
    dead->kill();
    const TimePoint killed = BootClock::now();
    auto reader = read_now(client, key_);
    Answer writer = write_later(client, key_, options(30s, patience));
    while (client.show(key_)->holders.size() > 1) std::this_thread::yield();
    EXPECT_LT(since(killed), lease + 5s);
    EXPECT_TRUE(reader->held());
    EXPECT_EQ(writer.wait_for(0s), std::future_status::timeout) << "the other one still reads";
    EXPECT_TRUE(reader->release());
    EXPECT_TRUE(writer.get());
}

TEST_P(Conformance, a_stopped_reader_finds_its_lock_lost_and_leaves_the_writer_alone) {
    DLOCK_NEEDS(Need::modes, Need::processes);
    const Client client = open();
    const auto reader = worker();
    reader->ask("as shared 0", "as");
    ASSERT_TRUE(reader->acquire("a", 600ms, key_)) << reader->unread();
    reader->stop();
    const auto writer = write_now(client, key_, options(30s, patience));
    ASSERT_TRUE(writer) << writer.error().message();
    reader->resume();
    EXPECT_TRUE(reader->expect("lost a")) << reader->unread();
    EXPECT_EQ(reader->ask("held a", "held a").value_or("").substr(0, 3), "no ");
    EXPECT_TRUE(writer->held());
    EXPECT_EQ(client.show(key_)->holders.size(), 1U);
}

TEST_P(Conformance, readers_and_writers_of_many_processes_never_overlap_while_some_are_killed) {
    DLOCK_NEEDS(Need::modes, Need::processes);
    const std::string file = (folder_.path() / "counter").string();
    std::vector<std::unique_ptr<Worker>> busy;
    for (const char* mode : {"as shared 0", "as shared 0", "as write 0"}) {
        busy.push_back(worker());
        busy.back()->ask(mode, "as");
        busy.back()->send("share 30 2000 " + file + " " + key_.text());
    }
    for (int i = 0; i < 3; ++i) {
        const auto victim = worker();
        victim->ask(i == 1 ? "as write 0" : "as shared 0", "as");
        victim->send("acquire a 600 forever automatic " + key_.text());
        ASSERT_TRUE(victim->expect("granted a")) << victim->unread();
        victim->kill();
    }
    for (const auto& one : busy) EXPECT_TRUE(one->expect("loaded 30", patience * 2)) << one->unread();
    const testing::SharedCounter counter(file);
    EXPECT_EQ(counter.overlaps(), 0U);
    EXPECT_EQ(counter.count(), 90U);
}

TEST_P(Conformance, a_key_of_several_holders_outlasts_the_loss_of_any_stored_piece) {
    DLOCK_NEEDS(Need::modes, Need::lines);
    if (store().pieces().empty()) GTEST_SKIP() << "nobody can delete a piece of it";
    for (const std::string& piece : store().pieces()) {
        const Key key("conformance/piece/" + piece);
        const Client client = open();
        auto reader = read_now(client, key, options(900ms));
        ASSERT_TRUE(reader);
        Answer writer = write_later(client, key, options(5s, patience));
        ASSERT_TRUE(stand_in_line(client, key, 1));
        store().delete_piece(key, piece);
        // Either its grant is still there, and renewed, or it learns that it is gone.
        const TimePoint start = BootClock::now();
        while (reader->held() && since(start) < 1500ms) std::this_thread::yield();
        reader = Error(errc::cancelled, "let go");
        auto got = writer.get();
        ASSERT_TRUE(got) << piece << ": " << got.error().message();
        EXPECT_TRUE(got->release()) << piece;
        EXPECT_TRUE(read_now(client, key)) << piece;
    }
}

TEST_P(Conformance, a_free_lock_of_any_mode_costs_one_call_and_its_release_one) {
    DLOCK_NEEDS(Need::modes);
    const auto plan = std::make_shared<FaultPlan>();
    const Client client = open_faulty(plan);
    const auto calls_of = [&](const std::function<Result<Lease>()>& take) {
        const std::size_t before = plan->calls(Op::acquire) + plan->calls(Op::release);
        for (int i = 0; i < 3; ++i) {
            auto got = take();
            EXPECT_TRUE(got);
            if (got) {
                EXPECT_TRUE(got->release());
            }
        }
        return plan->calls(Op::acquire) + plan->calls(Op::release) - before;
    };
    const AcquireOptions waits = options(30s, patience);
    EXPECT_EQ(calls_of([&] { return client.mutex(Key("e")).try_acquire(waits); }), 6U);
    EXPECT_EQ(calls_of([&] { return client.shared_mutex(Key("rw")).try_acquire(waits); }), 6U);
    EXPECT_EQ(calls_of([&] { return client.shared_mutex(Key("rw")).try_acquire_shared(waits); }), 6U);
    EXPECT_EQ(calls_of([&] { return client.semaphore(Key("p"), 2).try_acquire(waits); }), 6U);
}

TEST_P(Conformance, a_mode_change_whose_answer_is_lost_is_safe_to_repeat) {
    DLOCK_NEEDS(Need::modes);
    for (const Harm harm : {Harm::refused, Harm::unknown_before, Harm::unknown_after, Harm::doubled}) {
        const Key key("conformance/convert/" + std::string(to_string(harm)));
        const auto plan = std::make_shared<FaultPlan>();
        const Client client = open_faulty(plan);
        SharedMutex mutex = client.shared_mutex(key);
        Lease lease = write_now(client, key).value();
        plan->fail_nth(1, harm);
        if (!mutex.downgrade(lease)) {
            EXPECT_TRUE(mutex.downgrade(lease)) << to_string(harm);
        }
        EXPECT_TRUE(read_now(client, key)) << to_string(harm);
        const auto before = lease.fence();
        Result<void> up = mutex.try_upgrade(lease);
        for (int i = 0; i < 100 && !up && word(up.error()) == "contended"; ++i) up = mutex.try_upgrade(lease);
        EXPECT_TRUE(up) << to_string(harm);
        plan->fail_nth(1, harm);
        ASSERT_TRUE(mutex.downgrade(lease) || mutex.downgrade(lease));
        plan->fail_nth(1, harm);
        if (!mutex.try_upgrade(lease)) {
            EXPECT_TRUE(mutex.try_upgrade(lease)) << to_string(harm);
        }
        expect_higher(before, lease.fence());
        EXPECT_EQ(refusal(read_now(client, key)), "contended") << to_string(harm);
        EXPECT_TRUE(lease.held());
        EXPECT_TRUE(lease.release());
    }
}

TEST_P(Conformance, hold_off_and_at_least_keep_others_out_after_the_release) {
    DLOCK_NEEDS(Need::modes);
    const Client client = open();
    const Client other = open();
    for (const bool at_least : {false, true}) {
        const Key key(at_least ? "conformance/at_least" : "conformance/hold_off");
        AcquireOptions how = options(30s);
        (at_least ? how.at_least : how.hold_off) = 1500ms;
        const TimePoint start = BootClock::now();
        auto lease = client.mutex(key).try_acquire(how);
        ASSERT_TRUE(lease);
        ASSERT_TRUE(lease->release());
        EXPECT_EQ(refusal(other.mutex(key).try_acquire(options(30s))), "contended");
        const LockInfo info = other.show(key).value();
        ASSERT_EQ(info.holders.size(), 1U);
        EXPECT_TRUE(info.holders[0].held_off);
        EXPECT_EQ(info.holders[0].owner.service, "conformance") << "whose it was";
        auto next = other.mutex(key).try_acquire(options(30s, patience));
        ASSERT_TRUE(next);
        EXPECT_GE(since(start), 1490ms);
        EXPECT_LT(since(start), 5s);
        expect_higher(lease->fence(), next->fence());
    }
}

TEST_P(Conformance, leases_joined_by_the_outer_one_or_its_transaction_free_with_the_last) {
    const Client client = open();
    const Client other = open();
    Context context;
    context.txid = "t1";
    AcquireOptions how = options(30s);
    auto outer = client.mutex(key_).try_acquire(how, context);
    ASSERT_TRUE(outer);
    EXPECT_EQ(refusal(client.mutex(key_).try_acquire(how, context)), "would_deadlock");
    how.nested = Nested::join;
    auto inner = client.mutex(key_).try_acquire(how, context);
    ASSERT_TRUE(inner) << inner.error().message();
    auto third = outer->join();
    ASSERT_TRUE(third);
    EXPECT_EQ(inner->fence(), outer->fence());
    EXPECT_EQ(third->id(), outer->id());
    EXPECT_TRUE(outer->release());
    EXPECT_FALSE(outer->held());
    EXPECT_TRUE(outer->release()) << "the same answer again";
    expect_contended(other, key_);
    third = Error(errc::cancelled, "let go");
    expect_contended(other, key_);
    EXPECT_TRUE(inner->held());
    EXPECT_NO_THROW(assert_held(key_));
    EXPECT_TRUE(inner->release());
    expect_free(other, key_, patience);
    EXPECT_THROW(assert_held(key_), LockError);
    EXPECT_EQ(word(inner->join().error()), "lost");
}

}  // namespace dlock::conformance
