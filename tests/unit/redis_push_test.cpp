// SPDX-License-Identifier: Apache-2.0
/// Wake-ups of layout dlock: whom a release wakes, and what happens when the way of notification is cut.
#include <poll.h>

#include "unit/redis_fixture.hpp"

namespace dlock::store::redis {
namespace {

class RedisPush : public ::testing::Test {
protected:
    RedisPush() : proxy_(server_.port()), client_(url(proxy_.port())), other_(server_.url(), 2000ms, "i2") {}

    static std::string url(std::uint16_t port) { return "redis://127.0.0.1:" + std::to_string(port); }
    std::string channels() { return server_.command({"PUBSUB", "CHANNELS"}); }
    /// Asks the server until it says so. False at the deadline. Each question takes a round trip, none is a
    /// sleep.
    bool until(const std::function<bool()>& so) {
        const auto end = BootClock::now() + patience;
        while (!so())
            if (BootClock::now() > end) return false;
        return true;
    }
    std::unique_ptr<Watch> watch(StoreClient& client, const TicketId& id, Counter& counter) {
        return client.store().watch(client.subject("k"), id, [&counter](Change change) {
            EXPECT_EQ(change, Change::perhaps_mine);
            counter.hit();
        });
    }
    /// A watch that has had the call that every new subscription makes.
    std::unique_ptr<Watch> settled_watch(StoreClient& client, const TicketId& id, Counter& counter) {
        auto made = watch(client, id, counter);
        EXPECT_TRUE(counter.wait_for(1));
        return made;
    }

    RedisServer server_;
    FaultProxy proxy_;
    Counter counter_;
    Counter others_;
    StoreClient client_;
    StoreClient other_;
};

TEST_F(RedisPush, ReleaseWakesTheHeadAndNobodyElse) {
    fence_of(client_.acquire("k", grant(1)));
    static_cast<void>(client_.acquire("k", grant(2), {.ticket = ticket(2)}));
    static_cast<void>(other_.acquire("k", grant(3), {.ticket = ticket(3)}));
    auto first = settled_watch(client_, ticket(2), counter_);
    auto second = settled_watch(other_, ticket(3), others_);
    EXPECT_EQ(client_.release("k", grant(1)).value(), Released::released);
    EXPECT_TRUE(counter_.wait_for(2));
    fence_of(client_.acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_EQ(others_.count(), 1U);
    EXPECT_EQ(client_.release("k", grant(2)).value(), Released::released);
    EXPECT_TRUE(others_.wait_for(2));
    EXPECT_EQ(counter_.count(), 2U);
}

TEST_F(RedisPush, PublishesOnlyWhenSomebodyWaits) {
    server_.command({"CONFIG", "RESETSTAT"});
    fence_of(client_.acquire("k", grant(1)));
    EXPECT_EQ(client_.release("k", grant(1)).value(), Released::released);
    EXPECT_EQ(server_.command({"INFO", "commandstats"}).find("cmdstat_publish"), std::string::npos);
    EXPECT_EQ(channels(), "");
}

TEST_F(RedisPush, WithdrawingTheHeadOfAFreeLockPassesTheWakeOn) {
    fence_of(client_.acquire("k", grant(1)));
    static_cast<void>(client_.acquire("k", grant(2), {.ticket = ticket(2)}));
    static_cast<void>(other_.acquire("k", grant(3), {.ticket = ticket(3)}));
    auto second = settled_watch(other_, ticket(3), others_);
    EXPECT_EQ(client_.release("k", grant(1)).value(), Released::released);
    EXPECT_EQ(others_.count(), 1U);
    EXPECT_EQ(client_.release("k", grant(2), ticket(2)).value(), Released::not_owner);
    EXPECT_TRUE(others_.wait_for(2));
}

TEST_F(RedisPush, ForceWakesTheHead) {
    fence_of(client_.acquire("k", grant(1)));
    static_cast<void>(other_.acquire("k", grant(3), {.ticket = ticket(3)}));
    auto waiting = settled_watch(other_, ticket(3), others_);
    EXPECT_EQ(client_.force("k", core::public_id(grant(1))).value(), Forced::done);
    EXPECT_TRUE(others_.wait_for(2));
}

TEST_F(RedisPush, AWakeUpBeforeTheWatchIsNotLost) {
    auto keeps_subscribed = settled_watch(client_, ticket(9), counter_);
    fence_of(other_.acquire("k", grant(1)));
    static_cast<void>(client_.acquire("k", grant(2), {.ticket = ticket(2)}));
    const std::size_t before = proxy_.bytes(FaultProxy::Way::to_client);
    EXPECT_EQ(other_.release("k", grant(1)).value(), Released::released);
    ASSERT_TRUE(proxy_.wait_for_bytes(FaultProxy::Way::to_client, before + 1));
    Counter late;
    auto watch_after = watch(client_, ticket(2), late);
    EXPECT_TRUE(late.wait_for(1));
}

TEST_F(RedisPush, NoChannelIsLeftAfterTheLastWaiter) {
    {
        auto one = settled_watch(client_, ticket(1), counter_);
        auto two = watch(client_, ticket(2), counter_);
        EXPECT_EQ(channels(), "dlock:wake:i1");
    }
    EXPECT_TRUE(until([&] { return channels().empty(); }));
    Counter again;
    auto three = settled_watch(client_, ticket(3), again);
    EXPECT_EQ(channels(), "dlock:wake:i1");
}

TEST_F(RedisPush, LosingAndRegainingTheChannelEachWakeEveryWaiter) {
    auto one = settled_watch(client_, ticket(1), counter_);
    Counter second;
    auto two = watch(client_, ticket(2), second);
    for (std::size_t round = 1; round <= 3; ++round) {
        proxy_.cut();
        EXPECT_TRUE(counter_.wait_for(1 + 2 * round)) << "once for the loss, once for the return";
        EXPECT_TRUE(second.wait_for(2 * round));
    }
    EXPECT_EQ(channels(), "dlock:wake:i1");
}

TEST_F(RedisPush, SubscribesAgainAfterARestart) {
    auto one = settled_watch(client_, ticket(1), counter_);
    proxy_.refuse();
    EXPECT_TRUE(counter_.wait_for(2));
    server_.restart();
    proxy_.heal();
    EXPECT_TRUE(counter_.wait_for(3));
    EXPECT_EQ(channels(), "dlock:wake:i1");
}

TEST_F(RedisPush, AWatchMayGoInsideItsOwnCall) {
    std::unique_ptr<Watch> mine;
    std::promise<void> made;
    auto ready = std::make_shared<std::shared_future<void>>(made.get_future());
    mine = client_.store().watch(client_.subject("k"), ticket(1), [&, ready](Change) {
        ready->wait();
        mine.reset();
        counter_.hit();
    });
    made.set_value();
    EXPECT_TRUE(counter_.wait_for(1));
}

TEST_F(RedisPush, WithoutTheRightToPublishAReleaseStillReleases) {
    server_.command({"ACL", "SETUSER", "mute", "on", ">x", "~dlock:*", "+@all", "-publish", "resetchannels"});
    StoreClient mute("redis://mute:x@127.0.0.1:" + std::to_string(server_.port()));
    fence_of(mute.acquire("k", grant(1)));
    static_cast<void>(client_.acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_EQ(mute.release("k", grant(1)).value(), Released::released);
    EXPECT_TRUE(client_.renew("k", ticket(2), 5s).turn);
}

}  // namespace
}  // namespace dlock::store::redis
