// SPDX-License-Identifier: Apache-2.0
/// Layout dlock on a real server: every branch of its scripts.
#include <set>

#include "unit/redis_fixture.hpp"

namespace dlock::store::redis {
namespace {

/// One server for all cases; emptied before each.
class RedisDlock : public ::testing::Test {
protected:
    static void SetUpTestSuite() { server_ = std::make_unique<RedisServer>(); }
    static void TearDownTestSuite() { server_.reset(); }
    void SetUp() override {
        server_->command({"FLUSHALL"});
        client_ = std::make_unique<StoreClient>(server_->url());
    }
    void TearDown() override { client_.reset(); }

    static std::string redis(const std::vector<std::string>& parts) { return server_->command(parts); }
    /// The server's clock, in microseconds.
    static long long now_us() {
        const std::string time = redis({"TIME"});
        return std::stoll(time) * 1000000 + std::stoll(time.substr(time.find('\n') + 1));
    }
    /// As if the lease had ended just now.
    static void expire(const std::string& key) {
        redis({"HSET", "dlock:{" + key + "}", "x", std::to_string(now_us() - 1)});
    }
    static void expire_ticket(const std::string& key, const TicketId& id) {
        redis({"HSET", "dlock:{" + key + "}:tickets", id.hex(), std::to_string(now_us() - 1)});
    }

    static std::unique_ptr<RedisServer> server_;
    std::unique_ptr<StoreClient> client_;
};
std::unique_ptr<RedisServer> RedisDlock::server_;

TEST_F(RedisDlock, GrantsAFreeKeyAndKeepsWhoHasIt) {
    client_->owner({.service = "billing",
                    .host = "web-3",
                    .pid = 812,
                    .instance = "i1",
                    .biz_id = "order 4711",
                    .txid = "tx",
                    .note = "by ann"});
    const long long before = now_us();
    const std::uint64_t fence = fence_of(client_->acquire("k", grant(1), {.lease = 20s}));
    EXPECT_GE(fence, static_cast<std::uint64_t>(before));
    EXPECT_EQ(redis({"HGET", "dlock:{k}", "g"}), grant(1).hex());
    EXPECT_EQ(redis({"HGET", "dlock:{k}", "v"}), "1:mutex");
    EXPECT_EQ(redis({"GET", "dlock:floor"}), std::to_string(fence));
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:line", "dlock:{k}:tickets"}), "0");
    const long long ttl = std::stoll(redis({"PTTL", "dlock:{k}"}));
    EXPECT_GT(ttl, 3600000 + 19000);
    EXPECT_LE(ttl, 3600000 + 20000);

    const LockInfo info = client_->show("k").value().locks.at(0);
    EXPECT_EQ(info.key.bytes(), "k");
    EXPECT_EQ(info.kind, "mutex");
    EXPECT_EQ(info.problem, "");
    EXPECT_EQ(info.last_fence->value, fence);
    const HolderInfo& holder = info.holders.at(0);
    EXPECT_EQ(holder.public_id, core::public_id(grant(1)));
    EXPECT_EQ(holder.owner.service, "billing");
    EXPECT_EQ(holder.owner.pid, 812);
    EXPECT_EQ(holder.owner.biz_id, "order 4711");
    EXPECT_EQ(holder.owner.note, "by ann");
    EXPECT_EQ(holder.fence->value, fence);
    EXPECT_GT(*holder.expires_in, 15s);
    EXPECT_LE(*holder.expires_in, 20s);
    EXPECT_LT(*holder.held_for, 15s);
    EXPECT_LT(std::chrono::abs(std::chrono::system_clock::now() - holder.since), 60s);
}

TEST_F(RedisDlock, SecondComerIsToldWhoHoldsItAndLeavesNoTrace) {
    client_->owner(named("first"));
    fence_of(client_->acquire("k", grant(1), {.lease = 20s}));
    const AcquireAnswer answer = client_->acquire("k", grant(2));
    const auto& contended = std::get<Contended>(answer);
    EXPECT_EQ(contended.holder->owner.service, "first");
    EXPECT_EQ(contended.holder->public_id, core::public_id(grant(1)));
    EXPECT_GT(*contended.retry_in, 15s);
    EXPECT_LE(*contended.retry_in, 20s);
    EXPECT_EQ(redis({"KEYS", "dlock:{*"}), "dlock:{k}");
}

TEST_F(RedisDlock, RepeatOfAnAttemptIsTheSameGrantAndMovesNothing) {
    const std::uint64_t fence = fence_of(client_->acquire("k", grant(1), {.lease = 20s}));
    const std::string before = redis({"HGETALL", "dlock:{k}"});
    EXPECT_EQ(fence_of(client_->acquire("k", grant(1), {.lease = 60s})), fence);
    EXPECT_EQ(redis({"HGETALL", "dlock:{k}"}), before);
    // Once over, the same id is a new grant.
    expire("k");
    EXPECT_GT(fence_of(client_->acquire("k", grant(1))), fence);
}

TEST_F(RedisDlock, OneScriptToAcquireAndOneToRelease) {
    fence_of(client_->acquire("warm", grant(1)));
    EXPECT_EQ(client_->release("warm", grant(1)).value(), Released::released);
    redis({"CONFIG", "RESETSTAT"});
    for (unsigned i = 0; i < 5; ++i) {
        fence_of(client_->acquire("k", grant(i)));
        EXPECT_EQ(client_->release("k", grant(i)).value(), Released::released);
    }
    const std::string stats = redis({"INFO", "commandstats"});
    EXPECT_NE(stats.find("cmdstat_evalsha:calls=10,"), std::string::npos) << stats;
    EXPECT_EQ(stats.find("cmdstat_eval:"), std::string::npos) << stats;
}

TEST_F(RedisDlock, ReleaseIsOnlyForTheHolder) {
    fence_of(client_->acquire("k", grant(1)));
    EXPECT_EQ(client_->release("k", grant(2)).value(), Released::not_owner);
    EXPECT_EQ(redis({"HGET", "dlock:{k}", "g"}), grant(1).hex());
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::not_owner);
    EXPECT_EQ(client_->release("never", grant(1)).value(), Released::not_owner);
    EXPECT_EQ(redis({"HKEYS", "dlock:{k}"}), "v\nf") << "owner and id are gone";
    EXPECT_LE(std::stoll(redis({"PTTL", "dlock:{k}"})), 3600000 + 30000)
        << "the clean-up time, at most a lease more";
    fence_of(client_->acquire("long", grant(1), {.lease = 24h}));
    EXPECT_EQ(client_->release("long", grant(1)).value(), Released::released);
    EXPECT_LE(std::stoll(redis({"PTTL", "dlock:{long}"})), 3600000);
    redis({"DEL", "dlock:{long}"});
    EXPECT_TRUE(client_->list().value().locks.empty());
    const Page all = client_->list({.prefix = {}, .held_only = false}).value();
    ASSERT_EQ(all.locks.size(), 1U);
    EXPECT_TRUE(all.locks[0].last_fence.has_value());
}

TEST_F(RedisDlock, AnExpiredGrantIsNeitherReleasedNorRenewed) {
    fence_of(client_->acquire("k", grant(1)));
    expire("k");
    EXPECT_EQ(client_->renew("k", grant(1), 30s).renewal, Renewal::lost);
    EXPECT_TRUE(client_->list().value().locks.empty());
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::not_owner);
    fence_of(client_->acquire("k", grant(2)));
    EXPECT_EQ(client_->renew("k", grant(1), 30s).renewal, Renewal::lost);
    EXPECT_EQ(client_->renew("k", grant(2), 30s).renewal, Renewal::renewed);
}

TEST_F(RedisDlock, RenewalMovesExpiryOfRecordAndName) {
    fence_of(client_->acquire("k", grant(1), {.lease = 1s}));
    EXPECT_EQ(client_->renew("k", grant(1), 50s).renewal, Renewal::renewed);
    const long long left = std::stoll(redis({"HGET", "dlock:{k}", "x"})) - now_us();
    EXPECT_GT(left, 45000000);
    EXPECT_LE(left, 50000000);
    EXPECT_GT(std::stoll(redis({"PTTL", "dlock:{k}"})), 3600000 + 45000);
}

TEST_F(RedisDlock, RenewsManyInFewCallsAndInOrder) {
    std::vector<RenewItem> items;
    for (unsigned i = 0; i < 450; ++i) {
        const std::string key = "k" + std::to_string(i);
        if (i % 3 != 0) fence_of(client_->acquire(key, grant(i)));
        items.push_back({.subject = client_->subject(key), .id = grant(i), .lease = 30s, .handle = {}});
    }
    redis({"SET", "dlock:{k4}", "foreign"});
    redis({"SCRIPT", "FLUSH"});
    redis({"CONFIG", "RESETSTAT"});
    const auto answers = client_->renew(items);
    ASSERT_EQ(answers.size(), 450U);
    for (unsigned i = 0; i < 450; ++i)
        EXPECT_EQ(answers[i].renewal, i % 3 != 0 && i != 4 ? Renewal::renewed : Renewal::lost) << i;
    const std::string stats = redis({"INFO", "commandstats"});
    // Three scripts ran, which asks the time once each; the text went once though all three may have needed
    // it.
    EXPECT_NE(stats.find("cmdstat_time:calls=3,"), std::string::npos) << stats;
    EXPECT_NE(stats.find("cmdstat_eval:calls=1,"), std::string::npos) << stats;
    EXPECT_TRUE(client_->renew({}).empty());
}

TEST_F(RedisDlock, FencesRiseThroughEverything) {
    std::uint64_t last = 0;
    const auto next = [&](const char* after, unsigned id) {
        const std::uint64_t fence = fence_of(client_->acquire("k", grant(id)));
        EXPECT_GT(fence, last) << "after " << after;
        last = fence;
    };
    next("nothing", 1);
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    next("release", 2);
    expire("k");
    next("expiry", 3);
    redis({"DEL", "dlock:{k}"});
    next("deletion by hand", 4);
    // The clock was ahead once and went back: the floor alone knows.
    const std::uint64_t ahead = last + 3600ULL * 1000000;
    redis({"SET", "dlock:floor", std::to_string(ahead)});
    redis({"DEL", "dlock:{k}"});
    next("a step back of the clock, without a record", 5);
    EXPECT_EQ(last, ahead + 1);
    redis({"DEL", "dlock:floor"});
    expire("k");
    next("a step back of the clock, without the floor", 6);
    EXPECT_EQ(last, ahead + 2);
    EXPECT_EQ(redis({"GET", "dlock:floor"}), std::to_string(last));
    const std::uint64_t other = fence_of(client_->acquire("other", grant(7)));
    EXPECT_GT(other, last) << "the floor holds for every key";
    redis({"FLUSHALL"});
    EXPECT_GE(fence_of(client_->acquire("k", grant(8))) + 60000000, static_cast<std::uint64_t>(now_us()));
}

TEST_F(RedisDlock, RefusesFencesThatWouldNoLongerRise) {
    redis({"SET", "dlock:floor", "9007199254740991"});
    EXPECT_EQ(error_of_answer(client_->acquire("k", grant(1))), errc::foreign_record);
    redis({"SET", "dlock:floor", "seven"});
    const Error error = error_of_answer(client_->acquire("k", grant(1)));
    EXPECT_EQ(error, errc::foreign_record);
    EXPECT_NE(error.detail.find("dlock:floor"), std::string::npos);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}"}), "0") << "nothing half written";
}

TEST_F(RedisDlock, FlushedHolderIsLost) {
    fence_of(client_->acquire("k", grant(1)));
    redis({"FLUSHALL"});
    EXPECT_EQ(client_->renew("k", grant(1), 30s).renewal, Renewal::lost);
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::not_owner);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}"}), "0") << "a renewal revives nothing";
}

// ---------------------------------------------------------------------------------------------------
// The line

TEST_F(RedisDlock, TicketsAreServedInOrderOfArrival) {
    fence_of(client_->acquire("k", grant(1)));
    for (unsigned i = 2; i <= 4; ++i) {
        const AcquireAnswer answer = client_->acquire("k", grant(i), {.ticket = ticket(i)});
        const auto& queued = std::get<Queued>(answer);
        EXPECT_EQ(queued.place, i - 2);
        EXPECT_EQ(queued.holder->public_id, core::public_id(grant(1)));
    }
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    // Free, but others are ahead; a repeat keeps the place.
    const AcquireAnswer third = client_->acquire("k", grant(4), {.ticket = ticket(4)});
    EXPECT_EQ(std::get<Queued>(third).place, 2U);
    EXPECT_FALSE(std::get<Queued>(third).holder.has_value());
    for (unsigned i = 2; i <= 4; ++i) {
        EXPECT_TRUE(std::holds_alternative<Contended>(client_->acquire("k", grant(9))))
            << "a newcomer never overtakes";
        fence_of(client_->acquire("k", grant(i), {.ticket = ticket(i)}));
        EXPECT_EQ(client_->release("k", grant(i)).value(), Released::released);
    }
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:line", "dlock:{k}:tickets"}), "0") << "nothing is left";
    fence_of(client_->acquire("k", grant(9)));
}

TEST_F(RedisDlock, AMarkInTheRecordTellsThatTheLineHasToBeAsked) {
    fence_of(client_->acquire("k", grant(1)));
    EXPECT_EQ(redis({"HEXISTS", "dlock:{k}", "w"}), "0");
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_EQ(redis({"HGET", "dlock:{k}", "w"}), "1");
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    fence_of(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_EQ(redis({"HEXISTS", "dlock:{k}", "w"}), "0") << "nobody is left";
    EXPECT_EQ(client_->release("k", grant(2)).value(), Released::released);
    redis({"CONFIG", "RESETSTAT"});
    fence_of(client_->acquire("k", grant(3)));
    EXPECT_EQ(client_->release("k", grant(3)).value(), Released::released);
    EXPECT_EQ(redis({"INFO", "commandstats"}).find("zrange"), std::string::npos)
        << "a free lock asks no line";
}

TEST_F(RedisDlock, WithoutTheRecordTheLineIsAsked) {
    fence_of(client_->acquire("k", grant(1)));
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    redis({"DEL", "dlock:{k}"});
    EXPECT_TRUE(std::holds_alternative<Contended>(client_->acquire("k", grant(9))))
        << "no newcomer overtakes";
    static_cast<void>(client_->acquire("k", grant(3), {.ticket = ticket(3)}));
    fence_of(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_EQ(redis({"HGET", "dlock:{k}", "w"}), "1") << "the next one waits still";
    EXPECT_EQ(client_->release("k", grant(2)).value(), Released::released);
    EXPECT_TRUE(std::holds_alternative<Contended>(client_->acquire("k", grant(9))));
    fence_of(client_->acquire("k", grant(3), {.ticket = ticket(3)}));
}

TEST_F(RedisDlock, AMarkOfALineThatDiedOutHoldsNobodyUp) {
    fence_of(client_->acquire("k", grant(1)));
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    expire_ticket("k", ticket(2));
    fence_of(client_->acquire("k", grant(3)));
    EXPECT_EQ(redis({"HEXISTS", "dlock:{k}", "w"}), "0");
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:line", "dlock:{k}:tickets"}), "0");
}

TEST_F(RedisDlock, AGrantCanMoveTheTicketToTheTail) {
    fence_of(client_->acquire("k", grant(1)));
    for (unsigned i = 2; i <= 3; ++i)
        EXPECT_TRUE(std::holds_alternative<Queued>(client_->acquire("k", grant(i), {.ticket = ticket(i)})));
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    fence_of(client_->acquire("k", grant(2), {.ticket = ticket(2), .rejoins = true}));
    EXPECT_EQ(redis({"ZRANGE", "dlock:{k}:line", "0", "-1"}), ticket(3).hex() + "\n" + ticket(2).hex());
    // A ticket that has not stood in line can do so too.
    EXPECT_EQ(client_->release("k", grant(2), ticket(2)).value(), Released::released);
    fence_of(client_->acquire("k", grant(3), {.ticket = ticket(3)}));
    EXPECT_EQ(client_->release("k", grant(3)).value(), Released::released);
    fence_of(client_->acquire("k", grant(4), {.ticket = ticket(4), .rejoins = true}));
    EXPECT_EQ(redis({"ZRANGE", "dlock:{k}:line", "0", "-1"}), ticket(4).hex());
}

TEST_F(RedisDlock, ArrivalsInTheSameMomentAndBeforeAStepOfTheClockKeepTheirOrder) {
    fence_of(client_->acquire("k", grant(1)));
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(200)}));
    const std::string future = std::to_string(now_us() + 60000000);
    redis({"ZADD", "dlock:{k}:line", future, ticket(200).hex()});
    static_cast<void>(client_->acquire("k", grant(3), {.ticket = ticket(100)}));
    EXPECT_EQ(redis({"ZRANGE", "dlock:{k}:line", "0", "-1"}), ticket(200).hex() + "\n" + ticket(100).hex());
}

TEST_F(RedisDlock, DeadTicketsCostNothingOnceTheyAreOver) {
    fence_of(client_->acquire("k", grant(1)));
    for (unsigned i = 2; i < 402; ++i)
        EXPECT_TRUE(std::holds_alternative<Queued>(client_->acquire("k", grant(i), {.ticket = ticket(i)})));
    static_cast<void>(client_->acquire("k", grant(500), {.ticket = ticket(500)}));
    EXPECT_EQ(client_->show("k").value().locks.at(0).waiter_count, 401U);
    EXPECT_EQ(client_->show("k").value().locks.at(0).waiters.size(), 100U);
    for (unsigned i = 2; i < 402; ++i) expire_ticket("k", ticket(i));
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    // In batches of 100, so the living one is the head after five looks at most.
    unsigned looks = 1;
    while (!client_->renew("k", ticket(500), 5s).turn && looks < 10) ++looks;
    EXPECT_LE(looks, 5U);
    fence_of(client_->acquire("k", grant(500), {.ticket = ticket(500)}));
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:line", "dlock:{k}:tickets"}), "0");
}

TEST_F(RedisDlock, ATicketThatExpiredLosesItsPlace) {
    fence_of(client_->acquire("k", grant(1)));
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    static_cast<void>(client_->acquire("k", grant(3), {.ticket = ticket(3)}));
    expire_ticket("k", ticket(2));
    EXPECT_EQ(client_->renew("k", ticket(2), 5s).renewal, Renewal::lost);
    EXPECT_EQ(client_->renew("k", ticket(77), 5s).renewal, Renewal::lost) << "never was there";
    const AcquireAnswer again = client_->acquire("k", grant(2), {.ticket = ticket(2)});
    EXPECT_EQ(std::get<Queued>(again).place, 1U);
    EXPECT_EQ(redis({"ZRANGE", "dlock:{k}:line", "0", "-1"}), ticket(3).hex() + "\n" + ticket(2).hex());
}

TEST_F(RedisDlock, TicketRenewalTellsTurnAndHowLongTheHolderHas) {
    fence_of(client_->acquire("k", grant(1), {.lease = 20s}));
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    static_cast<void>(client_->acquire("k", grant(3), {.ticket = ticket(3)}));
    const RenewAnswer waits = client_->renew("k", ticket(2), 5s);
    EXPECT_EQ(waits.renewal, Renewal::renewed);
    EXPECT_FALSE(waits.turn);
    EXPECT_GT(*waits.holder_left, 15s);
    EXPECT_LE(*waits.holder_left, 20s);
    expire("k");
    const RenewAnswer head = client_->renew("k", ticket(2), 5s);
    EXPECT_TRUE(head.turn);
    EXPECT_FALSE(head.holder_left.has_value());
    EXPECT_FALSE(client_->renew("k", ticket(3), 5s).turn);
    EXPECT_GT(std::stoll(redis({"PTTL", "dlock:{k}:line"})), 3600000);
    EXPECT_GT(std::stoll(redis({"PTTL", "dlock:{k}:tickets"})), 3600000);
}

TEST_F(RedisDlock, LeasesAndTicketsAreRenewedInOneCall) {
    fence_of(client_->acquire("a", grant(1)));
    fence_of(client_->acquire("b", grant(2)));
    static_cast<void>(client_->acquire("b", grant(3), {.ticket = ticket(3)}));
    const auto answers = client_->renew({
        {.subject = client_->subject("b"), .id = ticket(3), .lease = 5s, .handle = {}},
        {.subject = client_->subject("a"), .id = grant(1), .lease = 30s, .handle = {}},
        {.subject = client_->subject("a"), .id = ticket(4), .lease = 5s, .handle = {}},
        {.subject = client_->subject("b"), .id = grant(9), .lease = 30s, .handle = {}},
    });
    ASSERT_EQ(answers.size(), 4U);
    EXPECT_EQ(answers[0].renewal, Renewal::renewed);
    EXPECT_TRUE(answers[0].holder_left.has_value());
    EXPECT_EQ(answers[1].renewal, Renewal::renewed);
    EXPECT_EQ(answers[2].renewal, Renewal::lost);
    EXPECT_EQ(answers[3].renewal, Renewal::lost);
}

TEST_F(RedisDlock, ShowHasTheLine) {
    fence_of(client_->acquire("k", grant(1)));
    client_->owner(named("waiter;one"));
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(2), .ticket_lease = 5s}));
    const LockInfo info = client_->show("k").value().locks.at(0);
    ASSERT_EQ(info.waiters.size(), 1U);
    EXPECT_EQ(info.waiters[0].owner.service, "waiter;one");
    EXPECT_LE(*info.waiters[0].expires_in, 5s);
    EXPECT_GT(*info.waiters[0].expires_in, 1s);
    EXPECT_LT(*info.waiters[0].waited_for, 15s);
    EXPECT_TRUE(client_->list().value().locks.at(0).waiters.empty());
    EXPECT_EQ(client_->list().value().locks.at(0).waiter_count, 1U);
    EXPECT_TRUE(client_->show("unknown").value().locks.empty());
}

// ---------------------------------------------------------------------------------------------------
// Forced release

TEST_F(RedisDlock, ForceEndsTheGrantThatWasSeenAndNoOther) {
    client_->owner(named("stuck"));
    const std::uint64_t fence = fence_of(client_->acquire("k", grant(1)));
    EXPECT_EQ(client_->force("k", core::public_id(grant(2))).value(), Forced::moved_on);
    EXPECT_EQ(client_->force("k", core::public_id(grant(1))).value(), Forced::done);
    EXPECT_EQ(redis({"HKEYS", "dlock:{k}"}), "v\nf") << "the metadata of the forced grant is gone";
    EXPECT_EQ(client_->renew("k", grant(1), 30s).renewal, Renewal::lost);
    EXPECT_EQ(client_->force("k", core::public_id(grant(1))).value(), Forced::already_free);
    EXPECT_EQ(client_->force("never", "0").value(), Forced::already_free);
    EXPECT_GT(fence_of(client_->acquire("k", grant(3))), fence);
    expire("k");
    EXPECT_EQ(client_->force("k", core::public_id(grant(3))).value(), Forced::already_free);
}

// ---------------------------------------------------------------------------------------------------
// Records of others

struct Foreign {
    std::vector<std::string> plant;
    errc code;
};

TEST_F(RedisDlock, RecordsOfOthersAreRefusedAndNeverOverwritten) {
    const std::vector<Foreign> cases{
        {{"SET", "dlock:{k}", "x"}, errc::foreign_record},
        {{"SADD", "dlock:{k}", "x"}, errc::foreign_record},
        {{"HSET", "dlock:{k}", "name", "x"}, errc::foreign_record},
        {{"HSET", "dlock:{k}", "v", "2:mutex", "f", "1"}, errc::foreign_record},
        {{"HSET", "dlock:{k}", "v", "1:mutex"}, errc::foreign_record},
        {{"HSET", "dlock:{k}", "v", "1:mutex", "f", "1", "g", "x", "x", "soon"}, errc::foreign_record},
        {{"HSET", "dlock:{k}", "v", "1:barrier", "f", "1"}, errc::limit_differs},
    };
    for (const Foreign& each : cases) {
        redis({"FLUSHALL"});
        redis(each.plant);
        const std::string before = redis({"DUMP", "dlock:{k}"});
        const std::string what = ::testing::PrintToString(each.plant);
        const Error error = error_of_answer(client_->acquire("k", grant(1), {.ticket = ticket(1)}));
        EXPECT_EQ(error, each.code) << what << " " << error.message();
        EXPECT_EQ(error.fault, Fault::fatal) << what;
        EXPECT_NE(error.detail.find("dlock:{k}"), std::string::npos) << error.detail;
        EXPECT_EQ(failure_of(client_->release("k", grant(1))), each.code) << what;
        EXPECT_EQ(failure_of(client_->force("k", "000000000000")), each.code) << what;
        EXPECT_EQ(client_->renew("k", grant(1), 30s).renewal, Renewal::lost) << what;
        EXPECT_EQ(redis({"DUMP", "dlock:{k}"}), before) << what;
        EXPECT_EQ(redis({"EXISTS", "dlock:{k}:line", "dlock:floor"}), "0") << what;
        const Page page = client_->list().value();
        ASSERT_EQ(page.locks.size(), 1U) << what << ": a row, not an error";
        EXPECT_FALSE(page.locks[0].problem.empty()) << what;
        EXPECT_FALSE(client_->show("k").value().locks.at(0).problem.empty()) << what;
    }
}

TEST_F(RedisDlock, ALineOfAnotherTypeIsForeignToo) {
    redis({"SET", "dlock:{k}:line", "x"});
    EXPECT_EQ(error_of_answer(client_->acquire("k", grant(1))), errc::foreign_record);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}", "dlock:floor"}), "0");
    redis({"DEL", "dlock:{k}:line"});
    redis({"SET", "dlock:{k}:tickets", "x"});
    fence_of(client_->acquire("k", grant(1), {.ticket = ticket(1)}));  // nobody waits, so nobody looks there
    EXPECT_EQ(error_of_answer(client_->acquire("k", grant(2), {.ticket = ticket(2)})), errc::foreign_record);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:line"}), "0") << "nothing half written";
    EXPECT_EQ(client_->renew("k", ticket(1), 5s).renewal, Renewal::lost);
}

TEST_F(RedisDlock, NoMemoryIsARetryAndNothingIsWritten) {
    redis({"CONFIG", "SET", "maxmemory", "1"});
    const Error error = error_of_answer(client_->acquire("k", grant(1)));
    redis({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_EQ(error, errc::unavailable);
    EXPECT_EQ(error.fault, Fault::retry);
    EXPECT_NE(error.detail.find("OOM"), std::string::npos) << error.detail;
    EXPECT_EQ(redis({"DBSIZE"}), "0");
    fence_of(client_->acquire("k", grant(1)));
}

// ---------------------------------------------------------------------------------------------------
// Lists

TEST_F(RedisDlock, ListsInPagesWithEachKeyOnce) {
    redis({"SET", "unrelated", "x"});
    redis({"HSET", "dlock:{%zz}", "v", "1:mutex"});
    std::set<std::string> expected;
    for (unsigned i = 0; i < 60; ++i) {
        const std::string key = "team/" + std::to_string(i) + (i % 2 == 0 ? "{*}" : "%");
        fence_of(client_->acquire(key, grant(i)));
        expected.insert(key);
    }
    fence_of(client_->acquire("other", grant(100)));
    std::set<std::string> seen;
    Filter filter{.prefix = "team/", .held_only = true, .limit = 7, .cursor = {}};
    for (unsigned pages = 0; pages < 100; ++pages) {
        const Page page = client_->list(filter).value();
        EXPECT_LE(page.locks.size(), 7U);
        for (const LockInfo& lock : page.locks)
            EXPECT_TRUE(seen.insert(lock.key.bytes()).second) << lock.key.bytes();
        filter.cursor = page.next;
        if (page.next.empty()) break;
    }
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(client_->list().value().locks.size(), 62U) << "with the one whose name belongs to no key";
}

TEST_F(RedisDlock, RefusesBadCursorsAndLimits) {
    EXPECT_EQ(failure_of(client_->list({.prefix = {}, .held_only = true, .limit = 10, .cursor = "x"})),
              errc::invalid_argument);
    EXPECT_EQ(failure_of(client_->list({.prefix = {}, .held_only = true, .limit = 10, .cursor = "0:="})),
              errc::invalid_argument);
    EXPECT_EQ(failure_of(client_->list({.prefix = {}, .held_only = true, .limit = 0, .cursor = {}})),
              errc::invalid_argument);
}

TEST_F(RedisDlock, KeysOfAnyBytesAreDistinctLocks) {
    const std::vector<std::string> keys{"a",
                                        "A",
                                        "a ",
                                        "{a}",
                                        "%7Ba%7D",
                                        "a\r\n",
                                        "a/b",
                                        "a%2Fb",
                                        "\xc3\x84",
                                        "A\xcc\x88",
                                        "\"'\\",
                                        "*",
                                        "a}:line",
                                        "floor",
                                        std::string(1024, '{'),
                                        std::string("\0", 1)};
    unsigned id = 0;
    for (const std::string& key : keys) fence_of(client_->acquire(key, grant(++id)));
    id = 0;
    for (const std::string& key : keys) {
        const auto answer = client_->acquire(key, grant(1000));
        EXPECT_EQ(std::get<Contended>(answer).holder->public_id, core::public_id(grant(++id)));
        EXPECT_EQ(client_->list({.prefix = key, .held_only = true, .limit = 100, .cursor = {}}).value().next,
                  "");
    }
    EXPECT_EQ(client_->list().value().locks.size(), keys.size());
}

}  // namespace
}  // namespace dlock::store::redis
