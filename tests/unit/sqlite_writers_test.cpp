// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "sqlite_support.hpp"
#include "store/owner_json.hpp"
#include "store/sqlite/operations.hpp"
#include "store/sqlite/writers.hpp"

namespace dlock::store::sqlite {
namespace {

/// A write whose statements and whose end the test sees.
class Step final : public Write {
public:
    using Work = std::function<void(db::Sqlite&)>;
    using Told = std::function<void(std::optional<Error>)>;
    Step(TimePoint at, Work work, Told told) : Write(at), work_(std::move(work)), told_(std::move(told)) {}
    void perform(db::Sqlite& db) override { work_(db); }
    void answer(std::optional<Error> error) override { told_(std::move(error)); }

private:
    Work work_;
    Told told_;
};

/// What came of a write: no error when it was done.
using End = std::future<std::optional<Error>>;

class SqliteWriters : public ::testing::Test {
protected:
    TempFolder folder;
    std::string file = folder.path("locks.db");
    Rig rig{file};
    Shared shared{Location::from(Url::parse("sqlite:" + file).value()).value(), rig.loop, boot_id().value()};
    Wakeups wakeups{rig.loop};
    std::string owner_json = to_json(*rig.owner);
    Worker worker;
    std::shared_ptr<Writers> writers = std::make_shared<Writers>(shared, worker, [](int) {});

    ~SqliteWriters() override {
        shared.stopping = true;
        worker.stop();
    }

    End add(Step::Work work, std::chrono::milliseconds limit = patience) {
        auto promise = std::make_shared<std::promise<std::optional<Error>>>();
        writers->add(std::make_unique<Step>(
            rig.loop.now() + limit, std::move(work),
            [promise](std::optional<Error> error) { promise->set_value(std::move(error)); }));
        return promise->get_future();
    }
    static std::optional<Error> end(End& end) {
        if (end.wait_for(patience) == std::future_status::ready) return end.get();
        return Error(errc::store_error, "no answer");
    }

    /// Somebody who writes until `go_on`, so that all who come meanwhile stand in the queue.
    class Busy {
    public:
        explicit Busy(SqliteWriters& test) {
            thread_ = std::thread([&test, this] {
                auto ended = test.add([this](db::Sqlite&) {
                    begun_.set_value();
                    go_.get_future().wait();
                });
                EXPECT_FALSE(end(ended));
            });
            begun_.get_future().wait();
        }
        void go_on() {
            if (!thread_.joinable()) return;
            go_.set_value();
            thread_.join();
        }
        ~Busy() { go_on(); }
        Busy(const Busy&) = delete;
        Busy& operator=(const Busy&) = delete;

    private:
        std::promise<void> begun_;
        std::promise<void> go_;
        std::thread thread_;
    };

    AcquireAnswer acquire(db::Sqlite& db, const std::string& key) {
        AcquireRequest request;
        request.subject = rig.subject(key);
        request.attempt = new_id<GrantId>();
        request.lease = 60s;
        return sqlite::acquire(db, shared, request, {.owner = owner_json, .wakeups = wakeups});
    }
    /// Keys that are acquired when the returned ends have come; what each was answered is in `answers`.
    std::vector<End> acquire_all(const std::vector<std::string>& keys, std::vector<AcquireAnswer>& answers) {
        answers.resize(keys.size());
        std::vector<End> ends;
        for (std::size_t i = 0; i < keys.size(); ++i)
            ends.push_back(
                add([this, key = keys[i], &answers, i](db::Sqlite& db) { answers[i] = acquire(db, key); }));
        return ends;
    }
    std::string held() { return Raw(file).one("SELECT count(*) FROM dlock_locks WHERE held = 1"); }
};

std::vector<std::string> some_keys(int count, const std::string& tail = {}) {
    std::vector<std::string> keys;
    for (int i = 0; i < count; ++i) keys.push_back("k" + std::to_string(i) + tail);
    return keys;
}

TEST_F(SqliteWriters, callers_who_come_while_one_writes_share_a_commit) {
    rig.hold("warm");
    const auto log_size = [&] { return std::filesystem::file_size(file + "-wal"); };
    const auto before = log_size();
    Busy busy(*this);
    std::vector<AcquireAnswer> answers;
    auto ends = acquire_all(some_keys(40), answers);
    EXPECT_EQ(log_size(), before);
    busy.go_on();
    for (End& each : ends) EXPECT_FALSE(end(each));
    for (const AcquireAnswer& answer : answers) EXPECT_TRUE(fence_of(answer));
    EXPECT_EQ(held(), "41");
    EXPECT_LT(log_size() - before, 20U * 2072) << "a page at least for each commit";
}

TEST_F(SqliteWriters, one_that_fails_harms_no_other) {
    for (const std::string& key : some_keys(10)) rig.fence(key);
    Raw(file).run("UPDATE dlock_locks SET kind = 9 WHERE key = CAST('k3' AS BLOB)");
    Raw(file).run("UPDATE dlock_locks SET held = 1, holder = x'00' WHERE key = CAST('k5' AS BLOB)");
    Busy busy(*this);
    std::vector<AcquireAnswer> answers;
    auto ends = acquire_all(some_keys(10), answers);
    busy.go_on();
    for (End& each : ends) EXPECT_FALSE(end(each));
    EXPECT_TRUE(error_of(answers[3]) == errc::foreign_record);
    EXPECT_TRUE(error_of(answers[5]) == errc::store_error);
    for (const std::size_t i : {0, 1, 2, 4, 6, 7, 8, 9}) EXPECT_TRUE(fence_of(answers[i])) << i;
    EXPECT_EQ(held(), "9") << "eight, and the damaged one";
}

TEST_F(SqliteWriters, a_failure_of_the_database_is_told_to_its_own_caller) {
    rig.hold("warm");
    Busy busy(*this);
    std::vector<AcquireAnswer> answers;
    auto before = acquire_all(some_keys(3, "a"), answers);
    End broken = add([](db::Sqlite& db) { db.execute("UPDATE nowhere SET x = 1"); });
    End undone = add([](db::Sqlite& db) {
        db::Transaction part(db);
        db.execute("DELETE FROM dlock_locks");
    });
    std::vector<AcquireAnswer> later;
    auto after = acquire_all(some_keys(3, "b"), later);
    busy.go_on();
    EXPECT_TRUE(end(broken));
    EXPECT_FALSE(end(undone));
    for (auto* ends : {&before, &after})
        for (End& each : *ends) EXPECT_FALSE(end(each));
    for (const auto* all : {&answers, &later})
        for (const AcquireAnswer& answer : *all) EXPECT_TRUE(fence_of(answer));
    EXPECT_EQ(held(), "7");
}

TEST_F(SqliteWriters, a_commit_that_fails_grants_nothing_to_anybody) {
    rig.hold("warm");
    End warm = add([](db::Sqlite& db) { db.number("SELECT layout FROM dlock_meta"); });
    EXPECT_FALSE(end(warm));
    Busy busy(*this);
    std::vector<AcquireAnswer> answers;
    auto ends = acquire_all(some_keys(20), answers);
    {
        const FullDisk full(1);
        busy.go_on();
        for (End& each : ends) {
            const auto error = end(each);
            ASSERT_TRUE(error);
            EXPECT_TRUE(*error == errc::unavailable) << error->message();
            EXPECT_EQ(error->fault, Fault::retry);
        }
    }
    EXPECT_EQ(held(), "1");
    rig.hold("k0");
    EXPECT_EQ(Raw(file).one("PRAGMA integrity_check"), "ok");
}

TEST_F(SqliteWriters, one_whose_time_is_over_does_not_end_the_others) {
    rig.hold("warm");
    Raw other(file);
    Busy busy(*this);
    End brief = add([](db::Sqlite& db) { db.execute("DELETE FROM dlock_locks"); }, 50ms);
    std::vector<AcquireAnswer> answers;
    auto ends = acquire_all(some_keys(5), answers);
    other.run("BEGIN IMMEDIATE");
    busy.go_on();
    const auto error = end(brief);
    ASSERT_TRUE(error);
    EXPECT_TRUE(*error == errc::unavailable) << error->message();
    other.run("COMMIT");
    for (End& each : ends) EXPECT_FALSE(end(each));
    EXPECT_EQ(held(), "6") << "what was told as not done was done";
}

TEST_F(SqliteWriters, a_caller_who_sleeps_in_the_queue_writes_next) {
    Busy busy(*this);
    std::promise<void> stands;
    std::thread::id wrote;
    std::thread sleeper([&] {
        const auto caller = std::make_shared<BlockedCaller>(rig.loop.now() + patience);
        {
            const BlockedCaller::Scope scope(&caller);
            writers->add(std::make_unique<Step>(
                rig.loop.now() + patience, [&](db::Sqlite&) { wrote = std::this_thread::get_id(); },
                [&](const std::optional<Error>&) { caller->answer(); }));
        }
        stands.set_value();
        EXPECT_TRUE(caller->wait());
        caller->leave();
        EXPECT_EQ(wrote, std::this_thread::get_id());
    });
    stands.get_future().wait();
    busy.go_on();
    sleeper.join();
}

TEST_F(SqliteWriters, a_caller_who_gave_up_is_written_for_by_another_thread) {
    Busy busy(*this);
    const auto caller = std::make_shared<BlockedCaller>(rig.loop.now());
    std::thread::id wrote;
    End ended;
    {
        const BlockedCaller::Scope scope(&caller);
        ended = add([&](db::Sqlite&) { wrote = std::this_thread::get_id(); });
    }
    EXPECT_FALSE(caller->wait());
    caller->leave();
    busy.go_on();
    EXPECT_FALSE(end(ended));
    EXPECT_NE(wrote, std::this_thread::get_id());
}

TEST_F(SqliteWriters, a_writer_is_not_kept_when_its_own_write_is_done) {
    Busy busy(*this);
    std::promise<void> stands;
    std::thread sleeper([&] {
        const auto caller = std::make_shared<BlockedCaller>(rig.loop.now() + patience);
        {
            const BlockedCaller::Scope scope(&caller);
            writers->add(std::make_unique<Step>(
                rig.loop.now() + patience, [](db::Sqlite&) {},
                [&](const std::optional<Error>&) { caller->answer(); }));
        }
        stands.set_value();
        EXPECT_TRUE(caller->wait());
        caller->leave();
    });
    stands.get_future().wait();
    std::vector<std::thread::id> wrote(250);
    std::vector<End> ends;
    for (auto& thread : wrote)
        ends.push_back(add([&thread](db::Sqlite&) { thread = std::this_thread::get_id(); }));
    const auto its = sleeper.get_id();
    busy.go_on();
    for (End& each : ends) EXPECT_FALSE(end(each));
    sleeper.join();
    EXPECT_LT(std::count(wrote.begin(), wrote.end(), its), 100) << "it wrote more than one batch";
}

TEST_F(SqliteWriters, a_store_destroyed_with_callers_in_the_queue_drops_them) {
    rig.hold("warm");
    Raw other(file);
    other.run("BEGIN IMMEDIATE");
    std::atomic<int> granted{0};
    std::promise<void> asked;
    rig.loop.post([&] {
        for (const std::string& key : some_keys(20)) {
            AcquireRequest request;
            request.subject = rig.subject(key);
            request.attempt = new_id<GrantId>();
            request.lease = 60s;
            rig.store->acquire(request, {.deadline = rig.loop.now() + patience},
                               [&](const AcquireAnswer& answer) { granted += fence_of(answer) ? 1 : 0; });
        }
        asked.set_value();
    });
    asked.get_future().wait();
    const TimePoint begin = rig.loop.now();
    rig.store.reset();
    EXPECT_LT(rig.loop.now() - begin, patience / 2) << "it waited for their deadlines";
    other.run("COMMIT");
    EXPECT_EQ(granted, 0);
    EXPECT_EQ(held(), "1");
}

}  // namespace
}  // namespace dlock::store::sqlite
