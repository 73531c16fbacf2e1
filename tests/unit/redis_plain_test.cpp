// SPDX-License-Identifier: Apache-2.0
/// Layout plain on a real server, beside programs that know nothing of dlock.
#include <set>

#include "unit/redis_fixture.hpp"

namespace dlock::store::redis {
namespace {

class RedisPlain : public ::testing::Test {
protected:
    static void SetUpTestSuite() { server_ = std::make_unique<RedisServer>(); }
    static void TearDownTestSuite() { server_.reset(); }
    void SetUp() override {
        server_->command({"FLUSHALL"});
        client_ = std::make_unique<StoreClient>(server_->url() + "?layout=plain");
    }
    void TearDown() override { client_.reset(); }
    static std::string redis(const std::vector<std::string>& parts) { return server_->command(parts); }
    void take(const std::string& key, unsigned id, milliseconds lease = 20s) {
        EXPECT_TRUE(std::holds_alternative<Granted>(client_->acquire(key, grant(id), {.lease = lease})));
    }

    static std::unique_ptr<RedisServer> server_;
    std::unique_ptr<StoreClient> client_;
};
std::unique_ptr<RedisServer> RedisPlain::server_;

TEST_F(RedisPlain, SaysWhatItCannotDo) {
    const Capabilities& can = client_->store().capabilities();
    EXPECT_FALSE(can.lines);
    EXPECT_FALSE(can.notify);
    EXPECT_FALSE(can.secret_at_rest);
    EXPECT_EQ(can.fence_scope, FenceScope::none);
    EXPECT_EQ(client_->store().watch(client_->subject("k"), ticket(1), [](Change) {}), nullptr);
}

TEST_F(RedisPlain, KeyAsGivenTokenAsValueCompanionOfTheSameExpiry) {
    client_->owner(named("billing"));
    const AcquireAnswer answer = client_->acquire("app:{k}%", grant(1), {.lease = 20s});
    EXPECT_FALSE(std::get<Granted>(answer).fence.has_value()) << "none is invented";
    EXPECT_EQ(redis({"GET", "app:{k}%"}), grant(1).hex());
    for (const std::string name : {"app:{k}%", "dlock:meta:app:{k}%"}) {
        EXPECT_GT(std::stoll(redis({"PTTL", name})), 15000) << name;
        EXPECT_LE(std::stoll(redis({"PTTL", name})), 20000) << name;
    }
    EXPECT_EQ(redis({"DBSIZE"}), "2");
    const LockInfo info = client_->show("app:{k}%").value().locks.at(0);
    EXPECT_EQ(info.holders.at(0).public_id, core::public_id(grant(1)));
    EXPECT_EQ(info.holders.at(0).owner.service, "billing");
    EXPECT_LT(*info.holders.at(0).held_for, 15s);
    EXPECT_FALSE(info.last_fence.has_value());
}

TEST_F(RedisPlain, ExcludesAndIsExcludedByOthers) {
    redis({"SET", "k", "their-token", "NX", "PX", "60000"});
    const AcquireAnswer answer = client_->acquire("k", grant(1));
    const auto& theirs = std::get<Contended>(answer);
    EXPECT_EQ(theirs.holder->public_id, core::public_id(std::string_view("their-token")));
    EXPECT_EQ(theirs.holder->owner, Owner{}) << "not recorded";
    EXPECT_EQ(theirs.retry_in, 100ms) << "the poll";
    EXPECT_EQ(redis({"EXISTS", "dlock:meta:k"}), "0");
    redis({"DEL", "k"});
    take("k", 1);
    EXPECT_EQ(redis({"SET", "k", "their-token", "NX", "PX", "1000"}), "(nil)");
    EXPECT_TRUE(std::holds_alternative<Contended>(client_->acquire("k", grant(2))));
}

TEST_F(RedisPlain, ALookIsWorthWhileWhenTheLeaseEndsBeforeThePoll) {
    FakeServer server([](const std::vector<std::string>& command) -> std::string {
        return command[0] == "CLIENT" ? "+OK\r\n" : "*3\r\n$1\r\nx\r\n:7\r\n$0\r\n\r\n";
    });
    StoreClient client(server.url() + "?layout=plain");
    EXPECT_EQ(std::get<Contended>(client.acquire("k", grant(1))).retry_in, 7ms);
}

TEST_F(RedisPlain, RepeatOfAnAttemptMovesNothing) {
    take("k", 1, 20s);
    take("k", 1, 60s);
    EXPECT_LE(std::stoll(redis({"PTTL", "k"})), 20000);
}

TEST_F(RedisPlain, ReleaseAndRenewOnlyWithTheToken) {
    take("k", 1, 20s);
    EXPECT_EQ(client_->release("k", grant(2)).value(), Released::not_owner);
    EXPECT_EQ(client_->renew("k", grant(2), 60s).renewal, Renewal::lost);
    EXPECT_EQ(client_->renew("k", grant(1), 60s).renewal, Renewal::renewed);
    EXPECT_GT(std::stoll(redis({"PTTL", "k"})), 50000);
    EXPECT_GT(std::stoll(redis({"PTTL", "dlock:meta:k"})), 50000);
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::released);
    EXPECT_EQ(redis({"DBSIZE"}), "0");
    EXPECT_EQ(client_->release("k", grant(1)).value(), Released::not_owner);
    EXPECT_EQ(client_->renew("k", grant(1), 60s).renewal, Renewal::lost) << "never revives";
    EXPECT_EQ(redis({"DBSIZE"}), "0");
}

TEST_F(RedisPlain, RenewsManyInOrder) {
    std::vector<RenewItem> items;
    for (unsigned i = 0; i < 410; ++i) {
        const std::string key = "k" + std::to_string(i);
        if (i % 2 == 0) take(key, i);
        items.push_back({.subject = client_->subject(key), .id = grant(i), .lease = 30s, .handle = {}});
    }
    redis({"DEL", "k8"});
    redis({"SADD", "k8", "x"});
    const auto answers = client_->renew(items);
    ASSERT_EQ(answers.size(), 410U);
    for (unsigned i = 0; i < 410; ++i)
        EXPECT_EQ(answers[i].renewal, i % 2 == 0 && i != 8 ? Renewal::renewed : Renewal::lost) << i;
}

TEST_F(RedisPlain, ForceEndsExactlyTheSeenValue) {
    take("k", 1);
    EXPECT_EQ(client_->force("k", core::public_id(grant(2))).value(), Forced::moved_on);
    EXPECT_EQ(client_->force("k", core::public_id(grant(1))).value(), Forced::done);
    EXPECT_EQ(redis({"DBSIZE"}), "0");
    EXPECT_EQ(client_->force("k", core::public_id(grant(1))).value(), Forced::already_free);
    redis({"SET", "k", "their-token"});
    EXPECT_EQ(client_->force("k", core::public_id(std::string_view("their-token"))).value(), Forced::done);
    EXPECT_EQ(redis({"DBSIZE"}), "0");
}

TEST_F(RedisPlain, ShowHasAnyHolderAndListsHaveOurs) {
    take("a/1", 1);
    take("a/2", 2);
    take("b", 3);
    redis({"SET", "a/data", "not a lock"});
    redis({"SET", "theirs", "token"});
    std::set<std::string> seen;
    const Page page = client_->list({.prefix = "a/", .held_only = true, .limit = 100, .cursor = {}}).value();
    for (const LockInfo& lock : page.locks) seen.insert(lock.key.bytes());
    EXPECT_EQ(seen, (std::set<std::string>{"a/1", "a/2"}));
    EXPECT_EQ(client_->list().value().locks.size(), 3U);
    const LockInfo theirs = client_->show("theirs").value().locks.at(0);
    EXPECT_EQ(theirs.holders.at(0).owner, Owner{});
    EXPECT_FALSE(theirs.holders.at(0).expires_in.has_value()) << "never expires";
    EXPECT_TRUE(client_->show("nobody").value().locks.empty());
}

TEST_F(RedisPlain, ACompanionOfAnotherTokenSaysNothing) {
    client_->owner(named("ours"));
    take("k", 1);
    redis({"SET", "k", "their-token", "PX", "10000"});
    const LockInfo info = client_->show("k").value().locks.at(0);
    EXPECT_EQ(info.holders.at(0).owner, Owner{});
    EXPECT_EQ(info.holders.at(0).public_id, core::public_id(std::string_view("their-token")));
}

TEST_F(RedisPlain, OtherTypesAreForeign) {
    redis({"SADD", "k", "x"});
    for (const Error& error :
         {error_of_answer(client_->acquire("k", grant(1))), failure_of(client_->release("k", grant(1))),
          failure_of(client_->force("k", "0"))}) {
        EXPECT_EQ(error, errc::foreign_record) << error.message();
        EXPECT_NE(error.detail.find("not a string"), std::string::npos);
    }
    EXPECT_EQ(redis({"TYPE", "k"}), "set");
    EXPECT_FALSE(client_->show("k").value().locks.at(0).problem.empty());
}

TEST_F(RedisPlain, KeysThatCouldBeCompanionsAreRefused) {
    EXPECT_EQ(error_of_answer(client_->acquire("dlock:meta:k", grant(1))), errc::invalid_argument);
    EXPECT_EQ(redis({"DBSIZE"}), "0");
}

TEST_F(RedisPlain, SaysWhichRightsAreMissing) {
    redis({"ACL", "SETUSER", "app", "on", ">secret", "~app:*", "+@all"});
    StoreClient app("redis://app:secret@127.0.0.1:" + std::to_string(server_->port()) + "?layout=plain");
    const Error error = error_of_answer(app.acquire("app:k", grant(1)));
    EXPECT_EQ(error, errc::unauthorized);
    EXPECT_NE(error.detail.find("dlock:meta:"), std::string::npos) << error.detail;
    EXPECT_EQ(redis({"DBSIZE"}), "0") << "nothing half written";
    redis({"ACL", "SETUSER", "app", "~dlock:meta:*"});
    EXPECT_TRUE(std::holds_alternative<Granted>(app.acquire("app:k", grant(1))));
}

}  // namespace
}  // namespace dlock::store::redis
