// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/sqlite_store.hpp"

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sqlite_support.hpp"
#include "store/sqlite/operations.hpp"

namespace dlock::store::sqlite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SqliteStore : public ::testing::Test {
protected:
    TempFolder folder;
    std::string file = folder.path("locks.db");
    Rig rig{file};

    /// Counts what a watch is told.
    struct Told {
        std::mutex mutex;
        std::condition_variable changed;
        int times = 0;
        std::function<void(Change)> take() {
            return [this](Change) {
                const std::lock_guard lock(mutex);
                ++times;
                changed.notify_all();
            };
        }
        bool wait(int count) {
            std::unique_lock lock(mutex);
            return changed.wait_for(lock, patience, [&] { return times >= count; });
        }
    };
};

TEST_F(SqliteStore, opening_makes_no_file) {
    EXPECT_FALSE(std::filesystem::exists(file));
    EXPECT_TRUE(rig.list().locks.empty());
    EXPECT_TRUE(rig.show("k").holders.empty());
    EXPECT_FALSE(std::filesystem::exists(file)) << "looking made it";
    rig.hold("k");
    EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(SqliteStore, a_free_key_is_granted_and_a_held_one_is_not) {
    const GrantId first = rig.hold("k");
    const AcquireAnswer answer = rig.acquire("k", new_id<GrantId>());
    const auto* contended = std::get_if<Contended>(&answer);
    ASSERT_NE(contended, nullptr);
    ASSERT_TRUE(contended->holder);
    EXPECT_EQ(contended->holder->public_id, core::public_id(first));
    EXPECT_EQ(contended->holder->owner, *rig.owner);
    ASSERT_TRUE(contended->retry_in);
    EXPECT_GT(*contended->retry_in, 8s);
    EXPECT_LE(*contended->retry_in, 10s);
    EXPECT_EQ(rig.release("k", first).value(), Released::released);
    rig.hold("k");
}

TEST_F(SqliteStore, a_repeated_attempt_gets_its_first_grant) {
    const auto attempt = new_id<GrantId>();
    const auto first = fence_of(rig.acquire("k", attempt, 10s));
    const auto expires = rig.show("k").holders.at(0).expires_in.value();
    const auto again = fence_of(rig.acquire("k", attempt, 100s));
    ASSERT_TRUE(first);
    EXPECT_EQ(first, again);
    EXPECT_LE(rig.show("k").holders.at(0).expires_in.value(), expires) << "the repeat moved the expiry";
    EXPECT_EQ(rig.release("k", attempt).value(), Released::released);
    EXPECT_EQ(rig.release("k", attempt).value(), Released::not_owner);
}

TEST_F(SqliteStore, only_the_owner_renews_and_releases) {
    const GrantId mine = rig.hold("k");
    EXPECT_EQ(rig.release("k", new_id<GrantId>()).value(), Released::not_owner);
    EXPECT_EQ(rig.renew("k", new_id<GrantId>()).renewal, Renewal::lost);
    EXPECT_EQ(rig.renew("k", mine, 60s).renewal, Renewal::renewed);
    EXPECT_GT(rig.show("k").holders.at(0).expires_in.value(), 50s);
    EXPECT_EQ(rig.renew("other", mine).renewal, Renewal::lost);
    EXPECT_EQ(rig.release("k", mine).value(), Released::released);
}

TEST_F(SqliteStore, an_expired_grant_is_over) {
    const GrantId gone = rig.hold("k");
    Raw(file).run("UPDATE dlock_locks SET expires = 1");
    EXPECT_EQ(rig.renew("k", gone).renewal, Renewal::lost);
    EXPECT_EQ(rig.release("k", gone).value(), Released::not_owner);
    const GrantId next = rig.hold("k");
    EXPECT_EQ(rig.release("k", next).value(), Released::released);
}

TEST_F(SqliteStore, fences_rise_through_everything) {
    std::uint64_t last = 0;
    const auto higher = [&] {
        const std::uint64_t fence = rig.fence("k");
        EXPECT_GT(fence, last);
        last = fence;
    };
    higher();
    higher();
    // A clock that was set back: the stored fence is far above the time.
    last += std::uint64_t{1} << 50U;
    Raw(file).run("UPDATE dlock_locks SET fence = " + std::to_string(last));
    higher();
    higher();
    // Forgotten under that floor.
    Raw(file).run("DELETE FROM dlock_locks; UPDATE dlock_meta SET floor = " + std::to_string(last));
    higher();
    higher();
}

TEST_F(SqliteStore, keys_are_bytes) {
    const std::vector<std::string> keys{"a",
                                        "A",
                                        "a ",
                                        std::string("a\0b", 3),
                                        "\xff\xfe",
                                        "'; DROP TABLE x; --",
                                        std::string(1024, 'x'),
                                        "\xc3\x84",
                                        "A\xcc\x88"};
    for (const std::string& key : keys) rig.hold(key);
    for (const std::string& key : keys)
        EXPECT_TRUE(std::holds_alternative<Contended>(rig.acquire(key, new_id<GrantId>())));
    EXPECT_EQ(rig.list().locks.size(), keys.size());
}

TEST_F(SqliteStore, waiters_are_served_in_order) {
    const GrantId holder = rig.hold("k");
    const auto first = new_id<GrantId>();
    const auto second = new_id<GrantId>();
    const auto ticket1 = new_id<TicketId>();
    const auto ticket2 = new_id<TicketId>();
    EXPECT_EQ(rig.queue("k", first, ticket1).place, 0U);
    const Queued queued = rig.queue("k", second, ticket2);
    EXPECT_EQ(queued.place, 1U);
    ASSERT_TRUE(queued.holder);
    EXPECT_EQ(queued.holder->public_id, core::public_id(holder));
    EXPECT_FALSE(rig.renew("k", ticket1).turn) << "held";
    EXPECT_TRUE(rig.renew("k", ticket1).holder_left);

    EXPECT_EQ(rig.release("k", holder).value(), Released::released);
    EXPECT_TRUE(std::holds_alternative<Contended>(rig.acquire("k", new_id<GrantId>())))
        << "overtook the line";
    EXPECT_FALSE(rig.queue("k", second, ticket2).holder);
    EXPECT_FALSE(rig.renew("k", ticket2).turn);
    const RenewAnswer turn = rig.renew("k", ticket1);
    EXPECT_EQ(turn.renewal, Renewal::renewed);
    EXPECT_TRUE(turn.turn);
    EXPECT_TRUE(fence_of(rig.acquire("k", first, 10s, join(ticket1))));
    EXPECT_EQ(rig.renew("k", ticket1).renewal, Renewal::lost) << "the ticket goes with the grant";
    EXPECT_EQ(rig.queue("k", second, ticket2).place, 0U);
    EXPECT_EQ(rig.release("k", first).value(), Released::released);
    EXPECT_TRUE(fence_of(rig.acquire("k", second, 10s, join(ticket2))));
    EXPECT_EQ(rig.release("k", second).value(), Released::released);
    EXPECT_EQ(Raw(file).one("SELECT count(*) FROM dlock_tickets"), "0");
    EXPECT_EQ(Raw(file).one("SELECT sum(tickets) FROM dlock_locks"), "0");
}

TEST_F(SqliteStore, a_grant_moves_the_process_to_the_tail) {
    const GrantId holder = rig.hold("k");
    const auto mine = new_id<TicketId>();
    const auto other = new_id<TicketId>();
    const auto attempt = new_id<GrantId>();
    rig.queue("k", attempt, mine);
    rig.queue("k", new_id<GrantId>(), other);
    EXPECT_EQ(rig.release("k", holder).value(), Released::released);
    EXPECT_TRUE(fence_of(rig.acquire("k", attempt, 10s, join(mine, 10s, Place::AfterGrant::rejoin))));
    EXPECT_EQ(rig.queue("k", new_id<GrantId>(), other).place, 0U);
    EXPECT_EQ(rig.queue("k", new_id<GrantId>(), mine).place, 1U);
    // Free and without a line, the grant still leaves the ticket.
    const auto alone = new_id<TicketId>();
    EXPECT_TRUE(
        fence_of(rig.acquire("free", new_id<GrantId>(), 10s, join(alone, 10s, Place::AfterGrant::rejoin))));
    EXPECT_EQ(rig.renew("free", alone).renewal, Renewal::renewed);
}

TEST_F(SqliteStore, dead_waiters_do_not_block) {
    const GrantId holder = rig.hold("k");
    const auto last = new_id<TicketId>();
    const auto attempt = new_id<GrantId>();
    for (int i = 0; i < 5; ++i) rig.queue("k", new_id<GrantId>(), new_id<TicketId>());
    Raw(file).run("UPDATE dlock_tickets SET expires = 1");
    EXPECT_EQ(rig.queue("k", attempt, last).place, 0U);
    EXPECT_EQ(rig.release("k", holder).value(), Released::released);
    EXPECT_TRUE(fence_of(rig.acquire("k", attempt, 10s, join(last))));
    EXPECT_EQ(Raw(file).one("SELECT count(*) FROM dlock_tickets"), "0");
}

TEST_F(SqliteStore, a_withdrawn_wait_leaves_nothing) {
    const GrantId holder = rig.hold("k");
    const auto ticket = new_id<TicketId>();
    const auto attempt = new_id<GrantId>();
    rig.queue("k", attempt, ticket);
    EXPECT_EQ(rig.release("k", attempt, ticket).value(), Released::not_owner);
    EXPECT_EQ(rig.renew("k", ticket).renewal, Renewal::lost);
    EXPECT_EQ(Raw(file).one("SELECT count(*) FROM dlock_tickets"), "0");
    EXPECT_EQ(rig.release("k", holder).value(), Released::released);
    rig.hold("k");
}

TEST_F(SqliteStore, a_release_wakes_the_head_and_nobody_else) {
    Rig waiters(file);
    const GrantId holder = rig.hold("k");
    const auto ticket1 = new_id<TicketId>();
    const auto ticket2 = new_id<TicketId>();
    const auto first = new_id<GrantId>();
    waiters.queue("k", first, ticket1);
    waiters.queue("k", new_id<GrantId>(), ticket2);
    Told head;
    Told next;
    const auto watch1 = waiters.store->watch(waiters.subject("k"), ticket1, head.take());
    const auto watch2 = waiters.store->watch(waiters.subject("k"), ticket2, next.take());
    EXPECT_EQ(rig.release("k", holder).value(), Released::released);
    EXPECT_TRUE(head.wait(1));
    // A head that leaves passes the turn on.
    EXPECT_EQ(waiters.release("k", first, ticket1).value(), Released::not_owner);
    EXPECT_TRUE(next.wait(1));
    EXPECT_EQ(head.times, 1);
    EXPECT_EQ(next.times, 1);
}

TEST_F(SqliteStore, a_wake_up_before_the_watch_is_not_lost) {
    Rig waiter(file);
    const GrantId holder = rig.hold("k");
    const GrantId other = rig.hold("other");
    const auto early = new_id<TicketId>();
    const auto known = new_id<TicketId>();
    waiter.queue("k", new_id<GrantId>(), early);
    waiter.queue("other", new_id<GrantId>(), known);
    Told marker;
    const auto watching = waiter.store->watch(waiter.subject("other"), known, marker.take());
    EXPECT_EQ(rig.release("k", holder).value(), Released::released);
    EXPECT_EQ(rig.release("other", other).value(), Released::released);
    ASSERT_TRUE(marker.wait(1)) << "what was sent before it has been read by now";
    Told told;
    const auto watch = waiter.store->watch(waiter.subject("k"), early, told.take());
    EXPECT_TRUE(told.wait(1));
}

TEST_F(SqliteStore, force_release_ends_the_grant_that_was_seen) {
    EXPECT_EQ(rig.force("k", "000000000000").value(), Forced::already_free);
    const GrantId first = rig.hold("k");
    const std::string seen = rig.show("k").holders.at(0).public_id;
    EXPECT_EQ(rig.force("k", "000000000000").value(), Forced::moved_on);
    EXPECT_EQ(rig.force("k", seen).value(), Forced::done);
    EXPECT_EQ(rig.renew("k", first).renewal, Renewal::lost);
    EXPECT_EQ(rig.release("k", first).value(), Released::not_owner);
    rig.hold("k");
    EXPECT_EQ(rig.force("k", seen).value(), Forced::moved_on);
}

TEST_F(SqliteStore, calls_on_the_loop_are_answered_elsewhere) {
    std::promise<std::pair<bool, std::thread::id>> promise;
    std::thread::id loop_thread;
    rig.loop.post([&] {
        loop_thread = std::this_thread::get_id();
        AcquireRequest request;
        request.subject = rig.subject("k");
        request.attempt = new_id<GrantId>();
        request.lease = 10s;
        rig.store->acquire(request, rig.call(), [&](AcquireAnswer answer) {
            promise.set_value({std::holds_alternative<Granted>(answer), std::this_thread::get_id()});
        });
    });
    auto future = promise.get_future();
    ASSERT_EQ(future.wait_for(patience), std::future_status::ready);
    const auto [granted, thread] = future.get();
    EXPECT_TRUE(granted);
    EXPECT_NE(thread, loop_thread);
    EXPECT_NE(thread, std::this_thread::get_id());
}

TEST_F(SqliteStore, a_call_past_its_deadline_is_not_sent) {
    rig.limit = -1ms;
    EXPECT_TRUE(error_of(rig.acquire("k", new_id<GrantId>())) == errc::unavailable);
    EXPECT_EQ(rig.renew("k", new_id<GrantId>()).renewal, Renewal::unknown);
    EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(SqliteStore, a_locked_database_is_waited_for_until_the_deadline) {
    rig.hold("warm");
    Raw other(file);
    other.run("BEGIN IMMEDIATE");
    rig.limit = 100ms;
    const Error error = error_of(rig.acquire("k", new_id<GrantId>()));
    EXPECT_TRUE(error == errc::unavailable) << error.message();
    EXPECT_EQ(error.fault, Fault::retry);
    EXPECT_EQ(rig.renew("k", new_id<GrantId>()).renewal, Renewal::unknown);
    EXPECT_TRUE(rig.inspect({}).has_value()) << "looking does not wait for writers";
    other.run("COMMIT");
    rig.hold("k");
}

TEST_F(SqliteStore, many_renewals_in_one_call) {
    std::vector<RenewItem> items;
    for (int i = 0; i < 1200; ++i) {
        RenewItem item;
        item.subject = rig.subject("k" + std::to_string(i));
        item.id = i % 3 == 0 ? new_id<GrantId>() : rig.hold("k" + std::to_string(i));
        item.lease = 60s;
        items.push_back(item);
    }
    std::promise<std::vector<RenewAnswer>> promise;
    rig.store->renew(items, rig.call(),
                     [&](std::vector<RenewAnswer> got) { promise.set_value(std::move(got)); });
    const auto answers = promise.get_future().get();
    ASSERT_EQ(answers.size(), items.size());
    for (std::size_t i = 0; i < answers.size(); ++i)
        EXPECT_EQ(answers[i].renewal, i % 3 == 0 ? Renewal::lost : Renewal::renewed) << i;
}

TEST_F(SqliteStore, another_boot_gets_one_whole_lease) {
    const GrantId holder = rig.hold("k", 300ms);
    const auto ticket = new_id<TicketId>();
    rig.queue("k", new_id<GrantId>(), ticket, 300ms);
    // Of another boot, whose clock says that it is long over, or will never be.
    for (const char* expires : {"1", "9000000000000000"}) {
        Raw(file).run("UPDATE dlock_locks SET boot = zeroblob(16), expires = " + std::string(expires));
        Raw(file).run("UPDATE dlock_tickets SET boot = zeroblob(16), expires = " + std::string(expires));
        const RenewAnswer look = rig.renew("k", ticket, 300ms);
        EXPECT_EQ(look.renewal, Renewal::renewed);
        ASSERT_TRUE(look.holder_left);
        EXPECT_GT(*look.holder_left, 100ms);
        EXPECT_LE(*look.holder_left, 300ms);
        EXPECT_EQ(Raw(file).one("SELECT count(*) FROM dlock_locks WHERE boot = zeroblob(16)"), "0");
    }
    Raw(file).run("UPDATE dlock_locks SET boot = zeroblob(16), expires = 1");
    EXPECT_TRUE(std::holds_alternative<Contended>(rig.acquire("k", new_id<GrantId>())))
        << "not free at first sight";
    EXPECT_EQ(rig.renew("k", holder).renewal, Renewal::renewed) << "its owner lives after all";
    // Shown, but not written, by those who only look.
    Raw(file).run("UPDATE dlock_locks SET boot = zeroblob(16), expires = 1, lease = 7000000");
    EXPECT_EQ(rig.show("k").holders.at(0).expires_in, 7s);
    EXPECT_FALSE(rig.show("k").holders.at(0).held_for);
}

TEST_F(SqliteStore, lists_in_pages) {
    for (const char* key : {"b/1", "b/2", "a", "b/3", "c", "b/%"}) rig.hold(key);
    rig.fence("b/free");
    const auto keys = [](const Page& page) {
        std::vector<std::string> names;
        for (const LockInfo& info : page.locks) names.push_back(info.key.bytes());
        return names;
    };
    Filter filter;
    EXPECT_THAT(keys(rig.list(filter)), ElementsAre("a", "b/%", "b/1", "b/2", "b/3", "c"));
    EXPECT_TRUE(rig.list(filter).next.empty());
    filter.prefix = "b/";
    filter.limit = 2;
    Page page = rig.list(filter);
    EXPECT_THAT(keys(page), ElementsAre("b/%", "b/1"));
    filter.cursor = page.next;
    page = rig.list(filter);
    EXPECT_THAT(keys(page), ElementsAre("b/2", "b/3"));
    EXPECT_TRUE(page.next.empty());
    filter.cursor.clear();
    filter.limit = 10;
    filter.held_only = false;
    EXPECT_THAT(keys(rig.list(filter)), ElementsAre("b/%", "b/1", "b/2", "b/3", "b/free"));
    filter.cursor = "%";
    EXPECT_TRUE(rig.inspect({.filter = filter, .only = {}}).error() == errc::invalid_argument);
}

TEST_F(SqliteStore, shows_the_holder_and_the_line) {
    rig.owner->note = "deploy \"2.14\"";
    rig.owner->txid = "t-1";
    const auto fence = fence_of(rig.acquire("k", new_id<GrantId>(), 30s));
    for (int i = 0; i < 105; ++i) rig.queue("k", new_id<GrantId>(), new_id<TicketId>());
    const LockInfo info = rig.show("k");
    EXPECT_EQ(info.kind, "mutex");
    EXPECT_TRUE(info.problem.empty());
    ASSERT_EQ(info.holders.size(), 1U);
    EXPECT_EQ(info.holders[0].owner, *rig.owner);
    EXPECT_EQ(info.holders[0].fence, fence);
    EXPECT_EQ(info.last_fence, fence);
    EXPECT_GE(info.holders[0].held_for.value(), 0ms);
    EXPECT_GT(info.holders[0].expires_in.value(), 20s);
    const auto age = std::chrono::system_clock::now() - info.holders[0].since;
    EXPECT_LT(age, 60s);
    EXPECT_GE(age, 0s);
    EXPECT_EQ(info.waiter_count, 105U);
    ASSERT_EQ(info.waiters.size(), 100U);
    EXPECT_EQ(info.waiters[0].owner, *rig.owner);
    EXPECT_GE(info.waiters[0].waited_for.value(), 0ms);
    EXPECT_GT(info.waiters[0].expires_in.value(), 5s);
    EXPECT_TRUE(rig.list().locks.at(0).waiters.empty());
    EXPECT_EQ(rig.list().locks.at(0).waiter_count, 105U);
}

TEST_F(SqliteStore, damaged_records_are_rows) {
    rig.hold("fine");
    for (const char* key : {"kind", "holder", "fence"}) rig.hold(key);
    Raw raw(file);
    raw.run("UPDATE dlock_locks SET kind = 77 WHERE key = CAST('kind' AS BLOB)");
    raw.run("UPDATE dlock_locks SET holder = x'01' WHERE key = CAST('holder' AS BLOB)");
    raw.run("UPDATE dlock_locks SET fence = -4 WHERE key = CAST('fence' AS BLOB)");
    int problems = 0;
    for (const LockInfo& info : rig.list().locks) problems += info.problem.empty() ? 0 : 1;
    EXPECT_EQ(rig.list().locks.size(), 4U);
    EXPECT_EQ(problems, 3);
    EXPECT_TRUE(error_of(rig.acquire("kind", new_id<GrantId>())) == errc::foreign_record);
    EXPECT_TRUE(error_of(rig.acquire("holder", new_id<GrantId>())) == errc::store_error);
    EXPECT_TRUE(rig.force("holder", "000000000000").error() == errc::store_error);
    EXPECT_THAT(rig.renew("holder", new_id<TicketId>()).detail, HasSubstr("damaged"));
}

TEST_F(SqliteStore, another_kind_is_refused) {
    rig.fence("k");
    Raw(file).run("UPDATE dlock_locks SET kind = 1");
    EXPECT_TRUE(error_of(rig.acquire("k", new_id<GrantId>())) == errc::limit_differs);
    EXPECT_EQ(rig.show("k").kind, "read_write");
}

TEST_F(SqliteStore, clean_up_forgets_what_nobody_uses_and_keeps_the_fences) {
    const std::uint64_t old = rig.fence("old") + (std::uint64_t{1} << 50U);
    rig.hold("held");
    rig.fence("recent");
    rig.hold("waited");
    rig.queue("waited", new_id<GrantId>(), new_id<TicketId>());
    Raw raw(file);
    raw.run("UPDATE dlock_locks SET fence = " + std::to_string(old) + " WHERE key = CAST('old' AS BLOB)");
    raw.run("UPDATE dlock_locks SET used = used - 3601 * 1000000 WHERE key <> CAST('recent' AS BLOB)");

    Shared shared(Location::from(Url::parse("sqlite:" + file).value()).value(), rig.loop, boot_id().value());
    Connection connection(shared);
    std::string cursor;
    clean_up(connection, shared, cursor, rig.loop.now() + patience);
    EXPECT_EQ(raw.one("SELECT group_concat(CAST(key AS TEXT)) FROM dlock_locks"), "held,recent,waited");
    EXPECT_EQ(raw.one("SELECT floor FROM dlock_meta"), std::to_string(old));
    EXPECT_TRUE(cursor.empty());
    EXPECT_GT(rig.fence("old"), old);
    EXPECT_GT(rig.fence("new"), old) << "any key can be one that was forgotten";
}

TEST_F(SqliteStore, clean_up_goes_on_where_it_ended) {
    rig.hold("k");
    Raw raw(file);
    raw.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4500) INSERT INTO "
        "dlock_locks(key, "
        "kind, version, fence, held, tickets, used) SELECT CAST(printf('key %05d', i) AS BLOB), 0, 1, i, 0, "
        "0, 1 "
        "FROM n");
    Shared shared(Location::from(Url::parse("sqlite:" + file).value()).value(), rig.loop, boot_id().value());
    Connection connection(shared);
    std::string cursor;
    for (const char* left : {"2501", "501", "1"}) {
        clean_up(connection, shared, cursor, rig.loop.now() + patience);
        EXPECT_EQ(raw.one("SELECT count(*) FROM dlock_locks"), left);
    }
    EXPECT_TRUE(cursor.empty());
    EXPECT_EQ(raw.one("SELECT floor FROM dlock_meta"), "4500");
}

TEST_F(SqliteStore, the_log_starts_again_when_it_is_long) {
    // Its header counts the starts.
    const auto starts = [&] {
        std::ifstream log(file + "-wal", std::ios::binary);
        log.seekg(12);
        std::string count(4, '\0');
        log.read(count.data(), 4);
        return count;
    };
    rig.fence("k");
    const std::string first = starts();
    const TimePoint until = rig.loop.now() + patience;
    while (starts() == first && rig.loop.now() < until) rig.fence("k");
    EXPECT_NE(starts(), first);
    EXPECT_GT(std::filesystem::file_size(file + "-wal"), 1000U * 2048) << "it was copied at once each time";
}

TEST_F(SqliteStore, threads_share_one_store) {
    std::vector<std::thread> threads;
    std::atomic<int> granted{0};
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 50; ++i) {
                const std::string key = "k" + std::to_string(t % 4);
                const auto attempt = new_id<GrantId>();
                if (!fence_of(rig.acquire(key, attempt))) continue;
                ++granted;
                EXPECT_EQ(rig.renew(key, attempt).renewal, Renewal::renewed);
                EXPECT_EQ(rig.release(key, attempt).value(), Released::released);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_GT(granted, 0);
}

}  // namespace
}  // namespace dlock::store::sqlite
