// SPDX-License-Identifier: Apache-2.0
/// Layout dlock on a real server: readers and writers, permits, and what a release leaves behind.
#include <map>

#include "unit/redis_fixture.hpp"

namespace dlock::store::redis {
namespace {

using core::Mode;
using Numbers = std::vector<unsigned>;

/// Number n is attempt n with ticket n. One server for all cases; emptied before each.
class RedisModes : public ::testing::Test {
protected:
    static void SetUpTestSuite() { server_ = std::make_unique<RedisServer>(); }
    static void TearDownTestSuite() { server_.reset(); }
    void SetUp() override {
        redis({"FLUSHALL"});
        client_ = std::make_unique<StoreClient>(server_->url());
    }
    void TearDown() override {
        watches_.clear();
        client_.reset();
    }

    static std::string redis(const std::vector<std::string>& parts) { return server_->command(parts); }
    static long long now_us() {
        const std::string time = redis({"TIME"});
        return std::stoll(time) * 1000000 + std::stoll(time.substr(time.find('\n') + 1));
    }
    /// As if the lease had ended just now.
    static void expire(unsigned number) {
        redis({"ZADD", "dlock:{k}:held", std::to_string(now_us() - 1), grant(number).hex()});
    }
    static void expire_ticket(unsigned number) {
        redis({"HSET", "dlock:{k}:tickets", ticket(number).hex(), std::to_string(now_us() - 1)});
    }
    static std::string left_in_redis() { return redis({"EXISTS", "dlock:{k}:line", "dlock:{k}:tickets"}); }

    AcquireAnswer acquire(unsigned number, Mode mode, std::uint32_t permits = 0) {
        return client_->acquire("k", grant(number), {.mode = mode, .permits = permits});
    }
    AcquireAnswer wait(unsigned number, Mode mode, std::uint32_t permits = 0) {
        return client_->acquire("k", grant(number),
                                {.ticket = ticket(number), .mode = mode, .permits = permits});
    }
    /// The fence of a grant that must be had.
    std::uint64_t hold(unsigned number, Mode mode, std::uint32_t permits = 0) {
        return fence_of(acquire(number, mode, permits));
    }
    AcquireAnswer convert(unsigned number, Mode to, std::uint64_t fence) {
        return client_->acquire("k", grant(number), {.mode = to, .converts = Fence{fence}});
    }
    ReleaseRequest ending(unsigned number, std::optional<TicketId> its_ticket = {}) {
        ReleaseRequest request;
        request.subject = client_->subject("k");
        request.attempt = grant(number);
        request.handle = "h";
        request.ticket = its_ticket;
        return request;
    }
    Released release(unsigned number) { return client_->release(ending(number)).value(); }
    Released leave(unsigned number) { return client_->release(ending(number, ticket(number))).value(); }
    Released release(unsigned number, core::After after, Mode mode) {
        ReleaseRequest request = ending(number);
        request.after = std::move(after);
        request.mode = mode;
        if (mode == Mode::exclusive) request.handle.clear();
        return client_->release(request).value();
    }
    Renewal renew(unsigned number, milliseconds lease = 30s) {
        return client_->renew("k", grant(number), lease, "h").renewal;
    }
    bool turn(unsigned number) { return client_->renew("k", ticket(number), 5s).turn; }
    LockInfo show() {
        const Page page = client_->show("k").value();
        return page.locks.empty() ? LockInfo{} : page.locks.front();
    }

    /// Waits, and counts its wake-ups. The call that every new subscription makes is over then.
    void wait_watched(unsigned number, Mode mode, std::uint32_t permits = 0) {
        EXPECT_TRUE(std::holds_alternative<Queued>(wait(number, mode, permits))) << number;
        Counter& its = wakes_[number];
        watches_.push_back(
            client_->store().watch(client_->subject("k"), ticket(number), [&its](Change) { its.hit(); }));
        const std::size_t first_calls = watches_.size() == 1 ? 1 : 0;
        EXPECT_TRUE(its.wait_for(first_calls));
        calm_[number] = first_calls;
    }
    /// Who was woken since. Messages of one client come in order, so behind one that is sent now none of
    /// before is due.
    Numbers woken() {
        Counter last;
        const TicketId mark = ticket(++marks_);
        const auto watch = client_->store().watch(client_->subject("k"), mark, [&](Change) { last.hit(); });
        redis({"PUBLISH", "dlock:wake:i1", mark.hex()});
        EXPECT_TRUE(last.wait_for(1));
        Numbers found;
        for (auto& [number, counter] : wakes_)
            if (counter.count() > std::exchange(calm_[number], counter.count())) found.push_back(number);
        return found;
    }

    static bool granted(const AcquireAnswer& answer) { return std::holds_alternative<Granted>(answer); }
    static bool queued(const AcquireAnswer& answer) { return std::holds_alternative<Queued>(answer); }
    static bool contended(const AcquireAnswer& answer) { return std::holds_alternative<Contended>(answer); }

    static std::unique_ptr<RedisServer> server_;
    std::unique_ptr<StoreClient> client_;
    std::map<unsigned, Counter> wakes_;
    std::map<unsigned, std::size_t> calm_;
    std::vector<std::unique_ptr<Watch>> watches_;
    unsigned marks_ = 100000;
};
std::unique_ptr<RedisServer> RedisModes::server_;

// ---------------------------------------------------------------------------------------------------
// Readers and writers

TEST_F(RedisModes, ReadersHoldTogetherAndEachHasAHigherFence) {
    const std::uint64_t first = hold(1, Mode::shared);
    EXPECT_GT(hold(2, Mode::shared), first);
    EXPECT_TRUE(contended(acquire(3, Mode::write)));
    EXPECT_EQ(release(1), Released::released);
    EXPECT_TRUE(contended(acquire(3, Mode::write)));
    EXPECT_EQ(release(2), Released::released);
    EXPECT_EQ(release(2), Released::not_owner);
    hold(3, Mode::write);
    EXPECT_TRUE(contended(acquire(4, Mode::shared)));
    EXPECT_TRUE(contended(acquire(4, Mode::write)));
    EXPECT_EQ(redis({"GET", "dlock:floor"}), redis({"HGET", "dlock:{k}", "f"}));
    EXPECT_EQ(release(3), Released::released);
    EXPECT_EQ(redis({"HKEYS", "dlock:{k}"}), "v\nf\nl\nx") << "nothing is left of the grants";
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:held"}), "0");
}

TEST_F(RedisModes, AnAnswerTellsWhoHoldsAsWhat) {
    client_->owner(named("writer"));
    const std::uint64_t fence = hold(1, Mode::write);
    const AcquireAnswer answer = acquire(2, Mode::shared);
    const HolderInfo& holder = *std::get<Contended>(answer).holder;
    EXPECT_EQ(holder.public_id, core::public_id(grant(1)));
    EXPECT_EQ(holder.mode, "write");
    EXPECT_EQ(holder.owner.service, "writer");
    EXPECT_EQ(holder.fence->value, fence);
    EXPECT_GT(*std::get<Contended>(answer).retry_in, 15s);
}

TEST_F(RedisModes, AWaitingWriterStopsLaterReadersAndComesAfterTheLastReader) {
    hold(1, Mode::shared);
    hold(2, Mode::shared);
    wait_watched(3, Mode::write);
    EXPECT_TRUE(contended(acquire(4, Mode::shared)));
    wait_watched(4, Mode::shared);
    EXPECT_EQ(release(1), Released::released);
    EXPECT_EQ(woken(), Numbers{});
    EXPECT_FALSE(turn(3));
    EXPECT_EQ(release(2), Released::released);
    EXPECT_EQ(woken(), Numbers{3});
    EXPECT_TRUE(turn(3));
    EXPECT_FALSE(turn(4));
    EXPECT_TRUE(queued(wait(4, Mode::shared)));
    EXPECT_TRUE(granted(wait(3, Mode::write)));
    EXPECT_EQ(release(3), Released::released);
    EXPECT_EQ(woken(), Numbers{4});
}

TEST_F(RedisModes, AWriterWakesTheRunOfReadersAtTheHeadAndNoMore) {
    hold(1, Mode::write);
    for (const unsigned number : {2U, 3U, 4U}) wait_watched(number, Mode::shared);
    wait_watched(5, Mode::write);
    wait_watched(6, Mode::shared);
    EXPECT_EQ(release(1), Released::released);
    EXPECT_EQ(woken(), (Numbers{2, 3, 4}));
    EXPECT_TRUE(turn(3));
    EXPECT_FALSE(turn(6));
    EXPECT_TRUE(granted(wait(4, Mode::shared))) << "in any order among themselves";
    EXPECT_TRUE(granted(wait(2, Mode::shared)));
    EXPECT_TRUE(queued(wait(6, Mode::shared)));
    EXPECT_TRUE(turn(3)) << "beside readers that came in before";
    EXPECT_TRUE(granted(wait(3, Mode::shared)));
    EXPECT_EQ(std::get<Queued>(wait(5, Mode::write)).place, 0U);
}

TEST_F(RedisModes, AWriterThatGivesUpLetsTheReadersBehindItIn) {
    hold(1, Mode::shared);
    wait_watched(2, Mode::write);
    wait_watched(3, Mode::shared);
    EXPECT_EQ(leave(2), Released::not_owner);
    EXPECT_EQ(woken(), Numbers{3});
    EXPECT_TRUE(granted(wait(3, Mode::shared)));
    EXPECT_EQ(left_in_redis(), "0");
    EXPECT_EQ(redis({"HEXISTS", "dlock:{k}", "w"}), "0");
}

TEST_F(RedisModes, ADeadWriterInLineHoldsReadersUpForItsTicketLeaseOnly) {
    hold(1, Mode::shared);
    EXPECT_TRUE(queued(wait(2, Mode::write)));
    expire_ticket(2);
    hold(3, Mode::shared);
    EXPECT_EQ(left_in_redis(), "0");
}

TEST_F(RedisModes, DeadReadersEndOneByOneWithTheirOwnLeases) {
    for (unsigned number = 1; number <= 250; ++number) hold(number, Mode::shared);
    for (unsigned number = 1; number <= 249; ++number) expire(number);
    EXPECT_EQ(renew(1), Renewal::lost) << "never revived";
    EXPECT_TRUE(contended(acquire(300, Mode::write)));
    EXPECT_EQ(renew(250, 40s), Renewal::renewed);
    expire(250);
    hold(300, Mode::write);
    EXPECT_EQ(show().holders.size(), 1U);
    EXPECT_TRUE(contended(acquire(301, Mode::shared))) << "100 dead ones go at each call";
    EXPECT_EQ(redis({"ZCARD", "dlock:{k}:held"}), "1");
    EXPECT_EQ(redis({"HLEN", "dlock:{k}"}), "6") << "their details went too";
}

TEST_F(RedisModes, ADeadWriterIsNoWriter) {
    hold(1, Mode::write);
    expire(1);
    hold(2, Mode::shared);
    hold(3, Mode::shared);
    EXPECT_EQ(redis({"HEXISTS", "dlock:{k}", "e"}), "0");
    EXPECT_EQ(renew(1), Renewal::lost);
    EXPECT_EQ(release(1), Released::not_owner);
}

TEST_F(RedisModes, ARepeatIsTheSameGrantAndMovesNothing) {
    const std::uint64_t fence = hold(1, Mode::shared);
    const std::string record = redis({"HGETALL", "dlock:{k}"});
    const std::string ends = redis({"ZSCORE", "dlock:{k}:held", grant(1).hex()});
    EXPECT_EQ(hold(1, Mode::shared), fence);
    EXPECT_EQ(fence_of(acquire(1, Mode::write)), fence) << "and changes no mode";
    EXPECT_EQ(redis({"HGETALL", "dlock:{k}"}), record);
    EXPECT_EQ(redis({"ZSCORE", "dlock:{k}:held", grant(1).hex()}), ends);
    expire(1);
    EXPECT_GT(hold(1, Mode::shared), fence) << "once over, the same id is a new grant";
}

TEST_F(RedisModes, OneScriptToAcquireAndOneToRelease) {
    hold(1, Mode::shared);
    release(1);
    redis({"CONFIG", "RESETSTAT"});
    for (unsigned i = 0; i < 5; ++i) {
        hold(i, i % 2 == 0 ? Mode::shared : Mode::write);
        EXPECT_EQ(release(i), Released::released);
    }
    const std::string stats = redis({"INFO", "commandstats"});
    EXPECT_NE(stats.find("cmdstat_evalsha:calls=10,"), std::string::npos) << stats;
    EXPECT_EQ(stats.find("cmdstat_zrange:"), std::string::npos) << "a free lock asks no line";
    EXPECT_EQ(stats.find("cmdstat_publish:"), std::string::npos);
}

TEST_F(RedisModes, AGrantCanMoveTheTicketToTheTail) {
    hold(1, Mode::write);
    EXPECT_TRUE(queued(wait(2, Mode::shared)));
    EXPECT_TRUE(queued(wait(3, Mode::write)));
    release(1);
    fence_of(client_->acquire("k", grant(2), {.ticket = ticket(2), .rejoins = true, .mode = Mode::shared}));
    EXPECT_EQ(redis({"ZRANGE", "dlock:{k}:line", "0", "-1"}), ticket(3).hex() + "\n" + ticket(2).hex());
    EXPECT_EQ(redis({"HGET", "dlock:{k}:tickets", ticket(2).hex() + ":m"}), "s");
}

// ---------------------------------------------------------------------------------------------------
// Conversion

TEST_F(RedisModes, ADowngradeLetsWaitingReadersInAndKeepsTheFence) {
    const std::uint64_t fence = hold(1, Mode::write);
    wait_watched(2, Mode::shared);
    wait_watched(3, Mode::write);
    EXPECT_EQ(fence_of(convert(1, Mode::shared, fence)), fence);
    EXPECT_EQ(woken(), Numbers{2});
    EXPECT_EQ(fence_of(convert(1, Mode::shared, fence)), fence) << "safe to repeat";
    EXPECT_TRUE(granted(wait(2, Mode::shared)));
    EXPECT_EQ(show().holders.at(0).mode, "shared");
    EXPECT_EQ(renew(1), Renewal::renewed);
}

TEST_F(RedisModes, AnUpgradeIsOnlyForTheSingleReaderAndRisesAboveAllOthers) {
    const std::uint64_t first = hold(1, Mode::shared);
    const std::uint64_t second = hold(2, Mode::shared);
    EXPECT_TRUE(contended(convert(1, Mode::write, first)));
    EXPECT_TRUE(contended(convert(2, Mode::write, second))) << "both at once: neither waits";
    EXPECT_EQ(release(2), Released::released);
    EXPECT_TRUE(queued(wait(3, Mode::write)));
    const std::uint64_t risen = fence_of(convert(1, Mode::write, first));
    EXPECT_GT(risen, second) << "before those in line, who wait for it anyway";
    EXPECT_EQ(redis({"GET", "dlock:floor"}), std::to_string(risen));
    EXPECT_TRUE(contended(acquire(4, Mode::shared)));
    EXPECT_EQ(release(1), Released::released);
    EXPECT_TRUE(granted(wait(3, Mode::write)));
}

TEST_F(RedisModes, AnUpgradeDoesNotCountReadersThatAreOver) {
    const std::uint64_t fence = hold(1, Mode::shared);
    hold(2, Mode::shared);
    expire(2);
    fence_of(convert(1, Mode::write, fence));
}

TEST_F(RedisModes, LateCopiesOfCallsChangeNoModeBack) {
    const std::uint64_t first = hold(1, Mode::shared);
    const std::uint64_t second = fence_of(convert(1, Mode::write, first));
    EXPECT_EQ(fence_of(acquire(1, Mode::shared)), second) << "the first acquire once more";
    EXPECT_TRUE(contended(acquire(2, Mode::shared))) << "still the writer";
    fence_of(convert(1, Mode::shared, second));
    fence_of(convert(1, Mode::write, second));
    EXPECT_TRUE(contended(convert(1, Mode::shared, second))) << "the downgrade before once more";
    EXPECT_TRUE(contended(acquire(2, Mode::shared))) << "still the writer";
    expire(1);
    EXPECT_EQ(error_of_answer(convert(1, Mode::shared, second)), errc::lost);
    EXPECT_EQ(error_of_answer(convert(9, Mode::write, second)), errc::lost);
    fence_of(client_->acquire("m", grant(1)));
    EXPECT_EQ(
        error_of_answer(client_->acquire("m", grant(1), {.mode = Mode::write, .converts = Fence{second}})),
        errc::limit_differs);
}

// ---------------------------------------------------------------------------------------------------
// Permits

TEST_F(RedisModes, NeverMoreThanThePermitsAndWaitersInOrder) {
    hold(1, Mode::permit, 2);
    hold(2, Mode::permit, 2);
    EXPECT_TRUE(contended(acquire(3, Mode::permit, 2)));
    for (const unsigned number : {4U, 5U, 6U}) wait_watched(number, Mode::permit, 2);
    EXPECT_EQ(release(1), Released::released);
    EXPECT_EQ(woken(), Numbers{4}) << "one permit wakes one";
    EXPECT_TRUE(contended(acquire(3, Mode::permit, 2))) << "nobody overtakes the line";
    EXPECT_TRUE(turn(4));
    EXPECT_FALSE(turn(5));
    EXPECT_EQ(release(2), Released::released);
    EXPECT_EQ(woken(), (Numbers{4, 5}));
    EXPECT_TRUE(turn(5));
    EXPECT_TRUE(granted(wait(5, Mode::permit, 2))) << "there is one for each of the first two";
    EXPECT_TRUE(queued(wait(6, Mode::permit, 2)));
    EXPECT_TRUE(granted(wait(4, Mode::permit, 2)));
    const RenewAnswer look = client_->renew("k", ticket(6), 5s);
    EXPECT_FALSE(look.turn);
    EXPECT_GT(*look.holder_left, 15s);
}

TEST_F(RedisModes, AReleaseOfOnePermitWakesOneOfAThousand) {
    hold(1, Mode::permit, 2);
    hold(2, Mode::permit, 2);
    for (unsigned number = 1000; number < 2000; ++number) wait(number, Mode::permit, 2);
    wakes_[1000];
    watches_.push_back(
        client_->store().watch(client_->subject("k"), ticket(1000), [this](Change) { wakes_[1000].hit(); }));
    EXPECT_TRUE(wakes_[1000].wait_for(1));
    redis({"CONFIG", "RESETSTAT"});
    EXPECT_EQ(release(1), Released::released);
    EXPECT_TRUE(wakes_[1000].wait_for(2));
    const std::string stats = redis({"INFO", "commandstats"});
    EXPECT_NE(stats.find("cmdstat_publish:calls=1,"), std::string::npos) << stats;
}

TEST_F(RedisModes, DeadHoldersGiveTheirPermitsBack) {
    hold(1, Mode::permit, 2);
    hold(2, Mode::permit, 2);
    EXPECT_TRUE(queued(wait(3, Mode::permit, 2)));
    expire(1);
    expire(2);
    EXPECT_TRUE(turn(3));
    EXPECT_TRUE(granted(wait(3, Mode::permit, 2)));
    hold(4, Mode::permit, 2);
    EXPECT_TRUE(contended(acquire(5, Mode::permit, 2)));
    EXPECT_EQ(redis({"ZCARD", "dlock:{k}:held"}), "2");
    EXPECT_EQ(release(1), Released::not_owner);
}

TEST_F(RedisModes, AnotherNumberOfPermitsIsRefusedUntilItIsConfigured) {
    EXPECT_EQ(error_of_answer(acquire(1, Mode::permit)), errc::limit_differs) << "nobody has said how many";
    EXPECT_EQ(redis({"DBSIZE"}), "0");
    hold(1, Mode::permit, 2);
    const Error error = error_of_answer(acquire(2, Mode::permit, 3));
    EXPECT_EQ(error, errc::limit_differs);
    EXPECT_NE(error.detail.find("has 2, not 3"), std::string::npos) << error.detail;
    hold(2, Mode::permit);  // as configured
    EXPECT_FALSE(client_->configure("k", 3, 1).value().changed);
    EXPECT_EQ(client_->configure("k", 3, 1).value().permits, 2U);
    EXPECT_TRUE(client_->configure("k", 3, 2).value().changed);
    hold(3, Mode::permit, 3);
    EXPECT_EQ(client_->configure("k", 1).value().permits, 1U) << "what is out stays out";
    EXPECT_EQ(show().holders.size(), 3U);
    EXPECT_EQ(renew(1), Renewal::renewed);
    release(1);
    release(2);
    EXPECT_TRUE(contended(acquire(4, Mode::permit, 1)));
    release(3);
    hold(4, Mode::permit, 1);
}

TEST_F(RedisModes, RaisingTheNumberWakesAsManyAsComeIn) {
    hold(1, Mode::permit, 2);
    hold(2, Mode::permit, 2);
    for (const unsigned number : {3U, 4U, 5U}) wait_watched(number, Mode::permit, 2);
    EXPECT_TRUE(client_->configure("k", 4).value().changed);
    EXPECT_EQ(woken(), (Numbers{3, 4}));
    EXPECT_TRUE(granted(wait(3, Mode::permit)));
    EXPECT_TRUE(granted(wait(4, Mode::permit)));
    EXPECT_TRUE(queued(wait(5, Mode::permit)));
}

TEST_F(RedisModes, AConfiguredKeyIsNeverForgottenAndAnotherOneForgetsItsNumber) {
    EXPECT_TRUE(client_->configure("k", 2, 0).value().changed);
    EXPECT_EQ(redis({"PTTL", "dlock:{k}"}), "-1");
    EXPECT_EQ(show().permits, 2U);
    EXPECT_FALSE(show().last_fence.has_value());
    hold(1, Mode::permit);
    EXPECT_EQ(renew(1, 50s), Renewal::renewed);
    release(1);
    EXPECT_EQ(redis({"PTTL", "dlock:{k}"}), "-1") << "neither grant nor renewal gives it an end";
    EXPECT_EQ(error_of_answer(client_->acquire("k", grant(2))), errc::limit_differs);
    EXPECT_EQ(client_->configure("k", 0).value().permits, 2U);
    EXPECT_GT(std::stoll(redis({"PTTL", "dlock:{k}"})), 3500000);
    EXPECT_EQ(error_of_answer(acquire(2, Mode::permit, 3)), errc::limit_differs);
    redis({"DEL", "dlock:{k}"});
    hold(2, Mode::permit, 3);
}

TEST_F(RedisModes, AConfiguredKeyThatNobodyEverHadIsForgottenAtOnce) {
    EXPECT_TRUE(client_->configure("k", 2).value().changed);
    EXPECT_EQ(client_->configure("k", 0).value().permits, 2U);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}"}), "0");
    EXPECT_EQ(client_->configure("k", 0).value().permits, 0U);
    fence_of(client_->acquire("k", grant(1)));
    EXPECT_EQ(failure_of(client_->configure("k", 2)), errc::limit_differs) << "a mutex has no permits";
    EXPECT_EQ(renew(1), Renewal::lost);
}

TEST_F(RedisModes, AnotherKindIsRefusedAsMuchByOneAsByTheOther) {
    fence_of(client_->acquire("k", grant(1)));
    const Error error = error_of_answer(acquire(2, Mode::shared));
    EXPECT_EQ(error, errc::limit_differs);
    EXPECT_EQ(error.detail, "the key is in use as mutex, not as read_write");
    EXPECT_EQ(release(2), Released::not_owner);
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    EXPECT_EQ(error_of_answer(acquire(2, Mode::permit, 2)), errc::limit_differs) << "as long as remembered";
    redis({"FLUSHALL"});
    hold(1, Mode::shared);
    EXPECT_EQ(error_of_answer(client_->acquire("k", grant(2))).detail,
              "the key is in use as read_write, not as mutex");
    EXPECT_EQ(error_of_answer(acquire(2, Mode::permit, 2)), errc::limit_differs);
    EXPECT_EQ(client_->release("k", grant(2)).value(), Released::not_owner);
}

// ---------------------------------------------------------------------------------------------------
// The handle

TEST_F(RedisModes, TheHandleFindsTheFormOfTheRecord) {
    const AcquireAnswer answer = acquire(1, Mode::shared);
    const std::string handle = std::get<Granted>(answer).handle;
    EXPECT_EQ(handle, "h");
    fence_of(client_->acquire("m", grant(1)));
    const auto answers = client_->renew({
        {.subject = client_->subject("k"), .id = grant(1), .lease = 50s, .handle = handle},
        {.subject = client_->subject("m"), .id = grant(1), .lease = 50s, .handle = {}},
        {.subject = client_->subject("k"), .id = grant(2), .lease = 50s, .handle = handle},
        {.subject = client_->subject("m"), .id = grant(1), .lease = 50s, .handle = handle},
    });
    EXPECT_EQ(answers.at(0).renewal, Renewal::renewed);
    EXPECT_EQ(answers.at(1).renewal, Renewal::renewed);
    EXPECT_EQ(answers.at(2).renewal, Renewal::lost);
    EXPECT_EQ(answers.at(3).renewal, Renewal::lost);
    EXPECT_GT(std::stoll(redis({"ZSCORE", "dlock:{k}:held", grant(1).hex()})), now_us() + 45000000);
    ReleaseRequest without = ending(1);
    without.handle.clear();
    without.mode = Mode::shared;
    EXPECT_EQ(client_->release(without).value(), Released::released) << "the mode says it as well";
}

TEST_F(RedisModes, RecordAndHoldersOutliveTheLongestLease) {
    fence_of(client_->acquire("k", grant(1), {.lease = 5h, .mode = Mode::shared}));
    fence_of(client_->acquire("k", grant(2), {.lease = 1s, .mode = Mode::shared}));
    for (const char* name : {"dlock:{k}", "dlock:{k}:held"}) {
        const long long left = std::stoll(redis({"PTTL", name}));
        EXPECT_GT(left, 5 * 3600000LL + 3590000) << name;
        EXPECT_LT(left, 5 * 3600000LL + 3700000) << name;
    }
    release(1);
    release(2);
    EXPECT_LE(std::stoll(redis({"PTTL", "dlock:{k}"})), 3600000) << "once free, an hour";
    hold(3, Mode::shared);
    EXPECT_EQ(renew(3, 9h), Renewal::renewed);
    EXPECT_GT(std::stoll(redis({"PTTL", "dlock:{k}:held"})), 9 * 3600000LL + 3590000);
    release(3);
    hold(4, Mode::shared);
    EXPECT_GT(std::stoll(redis({"PTTL", "dlock:{k}:held"})), 3600000) << "never without an end";
}

// ---------------------------------------------------------------------------------------------------
// Pieces deleted by hand

TEST_F(RedisModes, WithTheHoldersDeletedTheirGrantsAreLost) {
    hold(1, Mode::write);
    redis({"DEL", "dlock:{k}:held"});
    EXPECT_EQ(renew(1), Renewal::lost);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:held"}), "0") << "a renewal revives nothing";
    hold(2, Mode::shared);
    EXPECT_EQ(release(1), Released::not_owner);
    EXPECT_EQ(renew(2), Renewal::renewed);
    hold(3, Mode::shared);
}

TEST_F(RedisModes, WithTheRecordDeletedNobodyComesInUntilItsGrantsHaveEnded) {
    const std::uint64_t fence = hold(1, Mode::shared);
    EXPECT_TRUE(queued(wait(2, Mode::write)));
    redis({"DEL", "dlock:{k}"});
    EXPECT_TRUE(contended(acquire(3, Mode::shared)));
    EXPECT_TRUE(contended(acquire(3, Mode::permit, 2)));
    EXPECT_TRUE(queued(wait(2, Mode::write)));
    EXPECT_FALSE(turn(2));
    EXPECT_EQ(renew(1), Renewal::lost);
    EXPECT_EQ(error_of_answer(convert(1, Mode::write, fence)), errc::lost);
    expire(1);
    EXPECT_TRUE(turn(2));
    EXPECT_GT(fence_of(wait(2, Mode::write)), fence);
    EXPECT_EQ(renew(2), Renewal::renewed);
}

TEST_F(RedisModes, ALostGrantThatIsReleasedMakesRoomEarlier) {
    hold(1, Mode::shared);
    wait_watched(2, Mode::write);
    redis({"DEL", "dlock:{k}"});
    EXPECT_EQ(release(1), Released::not_owner) << "it was lost already";
    EXPECT_EQ(woken(), Numbers{2});
    EXPECT_TRUE(granted(wait(2, Mode::write)));
}

TEST_F(RedisModes, AGrantWhoseRecordWasMadeAnewByHandIsLostToo) {
    hold(1, Mode::permit, 2);
    redis({"DEL", "dlock:{k}"});
    EXPECT_TRUE(client_->configure("k", 2).value().changed);
    EXPECT_EQ(renew(1), Renewal::lost);
    hold(2, Mode::permit);
    EXPECT_TRUE(contended(acquire(3, Mode::permit))) << "it counts until it has ended";
}

TEST_F(RedisModes, WithTheLineOrItsTicketsDeletedWaitersStandAgain) {
    for (const char* piece : {"dlock:{k}:line", "dlock:{k}:tickets"}) {
        redis({"FLUSHALL"});
        hold(1, Mode::write);
        EXPECT_TRUE(queued(wait(2, Mode::shared)));
        redis({"DEL", piece});
        EXPECT_EQ(client_->renew("k", ticket(2), 5s).renewal, Renewal::lost) << piece;
        EXPECT_EQ(std::get<Queued>(wait(2, Mode::shared)).place, 0U) << piece;
        release(1);
        EXPECT_TRUE(turn(2)) << piece;
        EXPECT_TRUE(granted(wait(2, Mode::shared))) << piece;
        EXPECT_EQ(left_in_redis(), "0") << piece;
    }
}

TEST_F(RedisModes, AMutexWithItsLineDeletedLetsWaitersStandAgainToo) {
    fence_of(client_->acquire("k", grant(1)));
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    redis({"DEL", "dlock:{k}:line"});
    const AcquireAnswer answer = client_->acquire("k", grant(2), {.ticket = ticket(2)});
    EXPECT_EQ(std::get<Queued>(answer).place, 0U);
    redis({"DEL", "dlock:{k}:line"});
    EXPECT_EQ(client_->renew("k", ticket(2), 5s).renewal, Renewal::lost);
}

TEST_F(RedisModes, DeadTicketsCostNothingOnceTheyAreOver) {
    hold(1, Mode::permit, 1);
    for (unsigned number = 2; number < 402; ++number) wait(number, Mode::permit, 1);
    EXPECT_TRUE(queued(wait(500, Mode::permit, 1)));
    for (unsigned number = 2; number < 402; ++number) expire_ticket(number);
    release(1);
    unsigned looks = 1;
    while (!turn(500) && looks < 10) ++looks;
    EXPECT_LE(looks, 5U) << "100 at each call";
    EXPECT_TRUE(granted(wait(500, Mode::permit, 1)));
    EXPECT_EQ(left_in_redis(), "0");
}

TEST_F(RedisModes, PiecesOfAnotherTypeAreForeignAndDoNotFailABatch) {
    redis({"SET", "dlock:{k}:held", "x"});
    EXPECT_EQ(error_of_answer(acquire(1, Mode::shared)), errc::foreign_record);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}", "dlock:floor"}), "0") << "nothing half written";
    EXPECT_EQ(renew(1), Renewal::lost);
    EXPECT_EQ(failure_of(client_->release(ending(1))), errc::foreign_record);
    redis({"HSET", "dlock:{k}", "v", "1:permits", "f", "x"});
    EXPECT_FALSE(show().problem.empty());
    EXPECT_EQ(error_of_answer(acquire(1, Mode::permit, 2)), errc::foreign_record);
    EXPECT_EQ(failure_of(client_->configure("k", 2)), errc::foreign_record);
    redis({"HSET", "dlock:{k}", "f", "1", "l", "2"});
    EXPECT_EQ(show().problem, "");
    EXPECT_EQ(show().permits, 2U);
}

// ---------------------------------------------------------------------------------------------------
// Hold-off

TEST_F(RedisModes, HoldOffKeepsAMutexBackAndNobodyRenewsOrReleasesIt) {
    client_->owner(named("job"));
    fence_of(client_->acquire("k", grant(1)));
    static_cast<void>(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_EQ(release(1, {.hold_off = 3h}, Mode::exclusive), Released::released);
    EXPECT_EQ(release(1, {.hold_off = 3h}, Mode::exclusive), Released::not_owner);
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::not_owner);
    EXPECT_EQ(client_->renew("k", grant(1), 30s).renewal, Renewal::lost);
    const AcquireAnswer answer = client_->acquire("k", grant(3));
    EXPECT_TRUE(std::get<Contended>(answer).holder->held_off);
    EXPECT_GT(*client_->renew("k", ticket(2), 5s).holder_left, 179min);
    const HolderInfo holder = show().holders.at(0);
    EXPECT_TRUE(holder.held_off);
    EXPECT_EQ(holder.owner.service, "job");
    EXPECT_EQ(holder.mode, "exclusive");
    EXPECT_GT(*holder.expires_in, 179min);
    EXPECT_GT(std::stoll(redis({"PTTL", "dlock:{k}"})), 4 * 3600000LL - 10000);
    redis({"HSET", "dlock:{k}", "x", std::to_string(now_us() - 1)});
    fence_of(client_->acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_FALSE(show().holders.at(0).held_off);
}

TEST_F(RedisModes, HoldOffKeepsOnePermitOrTheWriterBack) {
    hold(1, Mode::permit, 2);
    EXPECT_EQ(release(1, {.hold_off = 60s}, Mode::permit), Released::released);
    EXPECT_EQ(renew(1), Renewal::lost);
    EXPECT_EQ(release(1), Released::not_owner);
    hold(2, Mode::permit, 2);
    EXPECT_TRUE(contended(acquire(3, Mode::permit, 2)));
    EXPECT_TRUE(show().holders.at(0).held_off);
    EXPECT_FALSE(show().holders.at(1).held_off);
    EXPECT_EQ(client_->force("k", core::public_id(core::held_off(grant(1)))).value(), Forced::done);
    hold(3, Mode::permit, 2);

    redis({"FLUSHALL"});
    hold(1, Mode::write);
    wait_watched(2, Mode::shared);
    EXPECT_EQ(release(1, {.hold_off = 60s}, Mode::write), Released::released);
    EXPECT_EQ(woken(), Numbers{});
    EXPECT_TRUE(queued(wait(2, Mode::shared)));
    EXPECT_EQ(show().holders.at(0).mode, "write");
    redis({"ZADD", "dlock:{k}:held", std::to_string(now_us() - 1), core::held_off(grant(1)).hex()});
    EXPECT_TRUE(granted(wait(2, Mode::shared)));
    EXPECT_EQ(show().holders.size(), 1U);
}

TEST_F(RedisModes, HoldOffOfAGrantThatIsOverIsNone) {
    fence_of(client_->acquire("k", grant(1)));
    redis({"HSET", "dlock:{k}", "x", std::to_string(now_us() - 1)});
    EXPECT_EQ(release(1, {.hold_off = 60s, .result = "42", .keep = 60s}, Mode::exclusive),
              Released::not_owner);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:done"}), "0") << "nor is there a result";
    fence_of(client_->acquire("k", grant(2)));
    redis({"FLUSHALL"});
    hold(1, Mode::shared);
    expire(1);
    EXPECT_EQ(release(1, {.hold_off = 60s, .result = "42", .keep = 60s}, Mode::shared), Released::not_owner);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}:done", "dlock:{k}:held"}), "0");
}

// ---------------------------------------------------------------------------------------------------
// Results

TEST_F(RedisModes, AResultIsToldToThoseWhoWantOneUntilItsTimeIsOver) {
    std::string bytes;
    while (bytes.size() < 4096) bytes.push_back(static_cast<char>(bytes.size() * 7));
    for (const Mode mode : {Mode::exclusive, Mode::write, Mode::shared, Mode::permit}) {
        redis({"FLUSHALL"});
        const Ask wants{.mode = mode, .permits = 1, .results = AcquireRequest::Results::want};
        client_->owner(named("first;of all"));
        fence_of(client_->acquire("k", grant(1), wants));
        EXPECT_EQ(release(1, {.result = bytes, .keep = 60s}, mode), Released::released);
        EXPECT_EQ(release(1, {.result = "late", .keep = 60s}, mode), Released::not_owner);
        client_->owner(named("second"));
        const AcquireAnswer answer = client_->acquire("k", grant(2), wants);
        const Done& done = std::get<Done>(answer);
        EXPECT_EQ(done.result, bytes);
        EXPECT_EQ(done.owner.service, "first;of all");
        EXPECT_GE(done.age, 0ms);
        EXPECT_LT(done.age, 15s);
        EXPECT_LT(std::chrono::abs(std::chrono::system_clock::now() - done.at), 60s);
        EXPECT_LE(std::stoll(redis({"PTTL", "dlock:{k}:done"})), 60000);
        fence_of(client_->acquire("k", grant(3), {.mode = mode, .permits = 1}));
        EXPECT_EQ(fence_of(client_->acquire("k", grant(3), wants)), show().last_fence->value)
            << "a repeat is the grant that it has";
        EXPECT_TRUE(std::holds_alternative<Done>(client_->acquire("k", grant(4), wants)))
            << "also while held";
        redis({"DEL", "dlock:{k}:done"});
        EXPECT_FALSE(std::holds_alternative<Done>(client_->acquire("k", grant(4), wants)));
    }
}

TEST_F(RedisModes, AResultWithAHoldOffAndATicketGoInOneRelease) {
    fence_of(client_->acquire("k", grant(1), {.ticket = ticket(1), .rejoins = true}));
    ReleaseRequest request = ending(1, ticket(1));
    request.handle.clear();
    request.after = {.hold_off = 60s, .result = std::string(), .keep = 60s};
    EXPECT_EQ(client_->release(request).value(), Released::released);
    EXPECT_EQ(left_in_redis(), "0");
    EXPECT_TRUE(show().holders.at(0).held_off);
    const AcquireAnswer answer = client_->acquire("k", grant(2), {.results = AcquireRequest::Results::want});
    EXPECT_EQ(std::get<Done>(answer).result, "");
    redis({"SET", "dlock:{k}:done", "who knows"});
    EXPECT_EQ(error_of_answer(client_->acquire("k", grant(2), {.results = AcquireRequest::Results::want})),
              errc::foreign_record);
}

// ---------------------------------------------------------------------------------------------------
// What people see

TEST_F(RedisModes, ShowHasAllHoldersAndTheLineWithTheirModes) {
    client_->owner(named("reader"));
    const std::uint64_t first = hold(1, Mode::shared);
    const std::uint64_t second = hold(2, Mode::shared);
    EXPECT_TRUE(queued(wait(3, Mode::write)));
    EXPECT_TRUE(queued(wait(4, Mode::shared)));
    const LockInfo info = show();
    EXPECT_EQ(info.kind, "read_write");
    EXPECT_EQ(info.problem, "");
    EXPECT_FALSE(info.permits.has_value());
    EXPECT_EQ(info.last_fence->value, second);
    ASSERT_EQ(info.holders.size(), 2U);
    EXPECT_EQ(info.holders[0].public_id, core::public_id(grant(1)));
    EXPECT_EQ(info.holders[0].fence->value, first);
    EXPECT_EQ(info.holders[0].mode, "shared");
    EXPECT_EQ(info.holders[0].owner.service, "reader");
    EXPECT_LT(*info.holders[0].held_for, 15s);
    EXPECT_GT(*info.holders[0].expires_in, 15s);
    EXPECT_LT(std::chrono::abs(std::chrono::system_clock::now() - info.holders[0].since), 60s);
    EXPECT_EQ(info.holders[1].fence->value, second);
    ASSERT_EQ(info.waiters.size(), 2U);
    EXPECT_EQ(info.waiters[0].mode, "write");
    EXPECT_EQ(info.waiters[1].mode, "shared");
    EXPECT_EQ(client_->list().value().locks.at(0).holders.size(), 2U);
    release(1);
    release(2);
    EXPECT_TRUE(client_->list().value().locks.empty());
}

TEST_F(RedisModes, ListsShowEveryKindInOnePage) {
    fence_of(client_->acquire("a", grant(1)));
    fence_of(client_->acquire("b", grant(2), {.mode = Mode::write}));
    fence_of(client_->acquire("c", grant(3), {.mode = Mode::permit, .permits = 7}));
    redis({"SET", "dlock:{d}", "foreign"});
    redis({"HSET", "dlock:{e}", "v", "1:read_write", "f", "1"});
    redis({"SADD", "dlock:{e}:held", "x"});
    const Page page = client_->list({.prefix = {}, .held_only = false}).value();
    std::map<std::string, LockInfo> rows;
    for (const LockInfo& row : page.locks) rows[row.key.bytes()] = row;
    EXPECT_EQ(rows.size(), 5U);
    EXPECT_EQ(rows["a"].kind, "mutex");
    EXPECT_EQ(rows["a"].holders.at(0).mode, "exclusive");
    EXPECT_EQ(rows["b"].holders.at(0).mode, "write");
    EXPECT_EQ(rows["c"].permits, 7U);
    EXPECT_EQ(rows["c"].holders.at(0).mode, "permit");
    EXPECT_FALSE(rows["d"].problem.empty());
    EXPECT_TRUE(rows["e"].holders.empty());
}

TEST_F(RedisModes, ForceEndsTheGrantThatWasSeenAndWakesWhoComesIn) {
    hold(1, Mode::permit, 2);
    hold(2, Mode::permit, 2);
    wait_watched(3, Mode::permit, 2);
    EXPECT_EQ(client_->force("k", core::public_id(grant(9))).value(), Forced::moved_on);
    EXPECT_EQ(client_->force("k", core::public_id(grant(2))).value(), Forced::done);
    EXPECT_EQ(woken(), Numbers{3});
    EXPECT_EQ(renew(2), Renewal::lost);
    EXPECT_EQ(renew(1), Renewal::renewed);
    EXPECT_EQ(client_->force("k", core::public_id(grant(2))).value(), Forced::moved_on);
    EXPECT_EQ(client_->force("k", core::public_id(grant(1))).value(), Forced::done);
    EXPECT_EQ(client_->force("k", core::public_id(grant(1))).value(), Forced::already_free);
    redis({"FLUSHALL"});
    hold(1, Mode::write);
    EXPECT_TRUE(queued(wait(4, Mode::shared)));
    EXPECT_EQ(client_->force("k", core::public_id(grant(1))).value(), Forced::done);
    EXPECT_TRUE(granted(wait(4, Mode::shared)));
}

}  // namespace
}  // namespace dlock::store::redis
