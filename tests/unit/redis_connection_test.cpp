// SPDX-License-Identifier: Apache-2.0
/// The way to the server and back: greeting, TLS, candidates, cuts, silence, garbage.
#include <atomic>

#include "unit/redis_fixture.hpp"

namespace dlock::store::redis {
namespace {

std::string url_of(std::uint16_t port, const std::string& rest = "") {
    return "redis://127.0.0.1:" + std::to_string(port) + rest;
}

bool granted(const AcquireAnswer& answer) { return std::holds_alternative<Granted>(answer); }

/// Until an acquire is granted, each under its own id. What failed on the way may be tried again; a call that
/// the old server may have got before it went is an unknown outcome.
bool comes_back(StoreClient& client, const std::string& key) {
    const auto end = BootClock::now() + patience;
    for (unsigned i = 5000; BootClock::now() < end; ++i) {
        const AcquireAnswer answer = client.acquire(key, grant(i), {.limit = 2000ms});
        if (granted(answer)) return true;
        EXPECT_NE(error_of_answer(answer).fault, Fault::fatal) << error_of_answer(answer).message();
    }
    return false;
}

// ---------------------------------------------------------------------------------------------------
// Peers that are no Redis

TEST(RedisPeer, AnswersMayComeByteByByte) {
    FakeServer server(
        [](const std::vector<std::string>& command) -> std::string {
            if (command[0] == "CLIENT") return "+OK\r\n";
            return "$16\r\n1764530000000001\r\n";
        },
        FakeServer::Pieces::bytes);
    StoreClient client(server.url());
    for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(fence_of(client.acquire("k", grant(i))), 1764530000000001U);
}

TEST(RedisPeer, NoRedisAtAllIsAnErrorThatSaysSo) {
    FakeServer server([](const auto&) { return std::string("HTTP/1.1 400 Bad Request\r\n\r\n"); });
    StoreClient client(server.url());
    const Error error = error_of_answer(client.acquire("k", grant(1)));
    EXPECT_EQ(error, errc::store_error);
    EXPECT_EQ(error.fault, Fault::fatal) << "nothing was sent";
    EXPECT_NE(error.detail.find("does not speak the Redis protocol"), std::string::npos) << error.detail;
}

TEST(RedisPeer, GarbageInPlaceOfAnAnswerIsUnknownAndTheConnectionIsMadeAnew) {
    for (const std::string garbage :
         {"garbage\r\n", "$5\r\nhello\r\n", "*2\r\n:9\r\n:1\r\n", "*1\r\n:1\r\n", ":1\r\n",
          "*2\r\n:1\r\n:5\r\n", "$2\r\n5x\r\n", "%1\r\n+a\r\n+b\r\n", "*2\r\n:2\r\n:0\r\n:7\r\n"}) {
        std::atomic<unsigned> greetings = 0;
        FakeServer server([&](const std::vector<std::string>& command) -> std::string {
            if (command[0] != "CLIENT") return greetings == 1 ? garbage : "$2\r\n77\r\n";
            ++greetings;
            return "+OK\r\n";
        });
        StoreClient client(server.url());
        const AcquireAnswer answer = client.acquire("k", grant(1));
        if (garbage.ends_with(":7\r\n")) {
            EXPECT_TRUE(std::holds_alternative<Queued>(answer))
                << "the first reply was right, the second unasked";
        } else {
            EXPECT_EQ(error_of_answer(answer), errc::store_error) << garbage;
            EXPECT_EQ(error_of_answer(answer).fault, Fault::indeterminate) << garbage;
        }
        AcquireAnswer next = client.acquire("k", grant(2));
        // The unasked reply may have been taken for this call's before the connection was dropped: unknown,
        // not granted.
        if (std::holds_alternative<Error>(next)) next = client.acquire("k", grant(2));
        EXPECT_EQ(fence_of(next), 77U);
        EXPECT_EQ(greetings, 2U) << garbage;
    }
}

TEST(RedisPeer, SilentFromTheStartIsUnavailableInTime) {
    FakeServer server([](const auto&) { return std::string(); });
    StoreClient client(server.url(), 200ms);
    const auto start = BootClock::now();
    const Error error = error_of_answer(client.acquire("k", grant(1), {.limit = 200ms}));
    EXPECT_EQ(error, errc::unavailable) << error.message();
    EXPECT_EQ(error.fault, Fault::retry) << "certainly not sent";
    EXPECT_LT(BootClock::now() - start, 10s);
}

TEST(RedisPeer, NobodyThereFailsAtOnceAndNamesThePlace) {
    const std::uint16_t port = free_port();
    StoreClient client(url_of(port), 5000ms);
    const auto start = BootClock::now();
    const Error error = error_of_answer(client.acquire("k", grant(1)));
    EXPECT_EQ(error, errc::unavailable);
    EXPECT_EQ(error.fault, Fault::retry);
    EXPECT_NE(error.detail.find("127.0.0.1:" + std::to_string(port)), std::string::npos) << error.detail;
    EXPECT_LT(BootClock::now() - start, 4s);
}

TEST(RedisPeer, AnUnknownNameIsUnavailable) {
    StoreClient client("redis://no-such-host.invalid", 3000ms);
    const Error error = error_of_answer(client.acquire("k", grant(1), {.limit = 3000ms}));
    EXPECT_EQ(error, errc::unavailable) << error.message();
    EXPECT_EQ(error.fault, Fault::retry);
}

TEST(RedisPeer, ANameIsResolvedWithoutBlockingTheLoop) {
    RedisServer server;
    StoreClient client("redis://localhost:" + std::to_string(server.port()));
    fence_of(client.acquire("k", grant(1)));
}

TEST(RedisPeer, ATextOfAScriptGoesOnceHoweverManyNeedIt) {
    std::atomic<unsigned> evals = 0;
    std::atomic<unsigned> shas = 0;
    FakeServer server([&](const std::vector<std::string>& command) -> std::string {
        if (command[0] == "CLIENT") return "+OK\r\n";
        if (command[0] == "EVAL") ++evals;
        if (command[0] == "EVALSHA") ++shas;
        if (command[0] == "EVALSHA" && evals == 0) return "-NOSCRIPT No matching script\r\n";
        return "$1\r\n5\r\n";
    });
    StoreClient client(server.url());
    std::vector<std::future<AcquireAnswer>> answers;
    for (unsigned i = 0; i < 50; ++i) answers.push_back(client.start_acquire("k", grant(i)));
    for (auto& answer : answers) EXPECT_EQ(fence_of(answer.get()), 5U);
    EXPECT_EQ(evals, 1U);
    EXPECT_GE(shas, 50U);
}

TEST(RedisPeer, AServerThatForgetsScriptsAllTheTimeStillServes) {
    FakeServer server([&](const std::vector<std::string>& command) -> std::string {
        if (command[0] == "CLIENT") return "+OK\r\n";
        return command[0] == "EVALSHA" ? "-NOSCRIPT No matching script\r\n" : "$1\r\n5\r\n";
    });
    StoreClient client(server.url());
    std::vector<std::future<AcquireAnswer>> answers;
    for (unsigned i = 0; i < 50; ++i) answers.push_back(client.start_acquire("k", grant(i)));
    for (auto& answer : answers) EXPECT_EQ(fence_of(answer.get()), 5U);
}

// ---------------------------------------------------------------------------------------------------
// Who may

TEST(RedisAuth, WrongOrMissingPasswordIsUnauthorizedAndFatal) {
    RedisServer server({.password = "right", .users = {}, .replica_of = {}, .more = {}});
    for (const std::string who : {"", ":wrong@", "nobody:right@"}) {
        StoreClient client("redis://" + who + "127.0.0.1:" + std::to_string(server.port()));
        const Error error = error_of_answer(client.acquire("k", grant(1)));
        EXPECT_EQ(error, errc::unauthorized) << who << " " << error.message();
        EXPECT_EQ(error.fault, Fault::fatal);
        EXPECT_EQ(error.detail.find("wrong"), std::string::npos) << "no secret in the text";
    }
    StoreClient client("redis://:right@127.0.0.1:" + std::to_string(server.port()));
    fence_of(client.acquire("k", grant(1)));
}

/// Each script once, with what only contention and dead holders need.
void use_every_mode(StoreClient& client) {
    using core::Mode;
    const std::uint64_t first =
        fence_of(client.acquire("rw", grant(1), {.lease = 100ms, .mode = Mode::shared}));
    EXPECT_EQ(client.renew("rw", grant(1), 200ms, "h").renewal, Renewal::renewed);
    const std::uint64_t second =
        fence_of(client.acquire("rw", grant(1), {.mode = Mode::write, .converts = Fence{first}}));
    static_cast<void>(client.acquire("rw", grant(2), {.ticket = ticket(2), .mode = Mode::shared}));
    fence_of(client.acquire("rw", grant(1), {.mode = Mode::shared, .converts = Fence{second}}));
    fence_of(client.acquire("rw", grant(2), {.ticket = ticket(2), .mode = Mode::shared}));
    EXPECT_EQ(client.renew("rw", grant(1), 1ms, "h").renewal, Renewal::renewed);
    const auto start = BootClock::now();
    while (client.show("rw").value().locks.at(0).holders.size() == 2)
        ASSERT_LT(BootClock::now() - start, patience);
    EXPECT_TRUE(std::holds_alternative<Contended>(client.acquire("rw", grant(3), {.mode = Mode::write})));
    EXPECT_EQ(client.force("rw", core::public_id(grant(2))).value(), Forced::done);

    EXPECT_TRUE(client.configure("p", 2).value().changed);
    const Ask wants{.mode = Mode::permit, .results = AcquireRequest::Results::want};
    fence_of(client.acquire("p", grant(1), wants));
    ReleaseRequest request;
    request.subject = client.subject("p");
    request.attempt = grant(1);
    request.mode = Mode::permit;
    request.after = {.hold_off = 50ms, .result = "42", .keep = 60s};
    EXPECT_EQ(client.release(request).value(), Released::released);
    EXPECT_TRUE(std::holds_alternative<Done>(client.acquire("p", grant(2), wants)));
    EXPECT_TRUE(client.configure("p", 0).value().changed);
    EXPECT_EQ(client.list({.prefix = {}, .held_only = false}).value().locks.size(), 3U);
}

TEST(RedisAuth, AUserWithOnlyTheDocumentedRightsIsEnough) {
    RedisServer server(
        {.password = {},
         .users = {"app on >secret resetkeys ~dlock:* resetchannels &dlock:wake:* -@all +evalsha +eval "
                   "+time +get +getset +set +hmget +hget +hset +hdel +exists +pexpire +persist +zadd +zrem "
                   "+zrange +zrangebyscore +zrank +zscore +zcard +zcount +publish +subscribe +scan"},
         .replica_of = {},
         .more = {}});
    StoreClient client("redis://app:secret@127.0.0.1:" + std::to_string(server.port()));
    fence_of(client.acquire("k", grant(1)));
    Counter woken;
    static_cast<void>(client.acquire("k", grant(2), {.ticket = ticket(2)}));
    const auto watch = client.store().watch(client.subject("k"), ticket(2), [&](Change) { woken.hit(); });
    EXPECT_TRUE(woken.wait_for(1));
    EXPECT_EQ(client.renew("k", grant(1), 30s).renewal, Renewal::renewed);
    EXPECT_EQ(client.renew("k", ticket(2), 5s).renewal, Renewal::renewed);
    EXPECT_EQ(client.list().value().locks.size(), 1U);
    EXPECT_EQ(client.release("k", grant(1)).value(), Released::released);
    EXPECT_TRUE(woken.wait_for(2));
    fence_of(client.acquire("k", grant(2), {.ticket = ticket(2)}));
    EXPECT_EQ(client.force("k", core::public_id(grant(2))).value(), Forced::done);
    use_every_mode(client);
}

TEST(RedisAuth, AMissingRightIsNamedAndNothingIsHalfWritten) {
    RedisServer server({.password = {},
                        .users = {"app on >secret ~other:* +@all", "weak on >secret ~dlock:* +@all -getset"},
                        .replica_of = {},
                        .more = {}});
    StoreClient app("redis://app:secret@127.0.0.1:" + std::to_string(server.port()));
    EXPECT_EQ(error_of_answer(app.acquire("k", grant(1))), errc::unauthorized);
    StoreClient weak("redis://weak:secret@127.0.0.1:" + std::to_string(server.port()));
    EXPECT_EQ(error_of_answer(weak.acquire("k", grant(1))), errc::unauthorized);
    EXPECT_EQ(server.command({"DBSIZE"}), "0");
}

TEST(RedisAuth, TheDatabaseOfTheUrlIsUsed) {
    RedisServer server;
    StoreClient client(url_of(server.port(), "/3"));
    fence_of(client.acquire("k", grant(1)));
    EXPECT_NE(server.command({"INFO", "keyspace"}).find("db3:keys=2"), std::string::npos);
    EXPECT_EQ(server.command({"DBSIZE"}), "0");
    StoreClient far(url_of(server.port(), "/999"));
    EXPECT_EQ(error_of_answer(far.acquire("k", grant(1))), errc::invalid_argument);
}

// ---------------------------------------------------------------------------------------------------
// TLS

class RedisTls : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        server_ = std::make_unique<RedisServer>(
            RedisOptions{.password = "pw", .users = {}, .replica_of = {}, .tls = true, .more = {}});
    }
    static void TearDownTestSuite() { server_.reset(); }
    static std::string url(const std::string& host, const std::string& params) {
        return "rediss://:pw@" + host + ":" + std::to_string(server_->tls_port()) + "?" + params;
    }
    static std::string ca(const std::string& name = "ca.crt") { return "ca=" + server_->file(name); }
    static void expect_refused(const std::string& with, const std::string& words) {
        StoreClient client(with);
        const Error error = error_of_answer(client.acquire("k", grant(1)));
        EXPECT_EQ(error.fault, Fault::fatal) << error.message();
        EXPECT_NE(error.detail.find(words), std::string::npos) << error.detail;
    }
    static std::unique_ptr<RedisServer> server_;
};
std::unique_ptr<RedisServer> RedisTls::server_;

TEST_F(RedisTls, WorksByNameAndByAddressAndInBulk) {
    for (const std::string host : {"localhost", "127.0.0.1"}) {
        StoreClient client(url(host, ca()));
        std::vector<std::future<AcquireAnswer>> answers;
        for (unsigned i = 0; i < 2000; ++i)
            answers.push_back(client.start_acquire(host + std::to_string(i), grant(i)));
        for (auto& answer : answers) fence_of(answer.get());
    }
    StoreClient named_otherwise(url("127.0.0.1", ca() + "&sni=localhost"));
    fence_of(named_otherwise.acquire("k", grant(1)));
}

TEST_F(RedisTls, TheCertificateIsAlwaysChecked) {
    const long long before = server_->info("total_commands_processed");
    expect_refused(url("localhost", ca("other.crt")), "certificate refused");
    expect_refused(url("localhost", ""), "certificate refused");
    expect_refused(url("127.0.0.1", ca() + "&sni=example.com"), "certificate refused");
    EXPECT_EQ(server_->info("total_commands_processed"), before + 2)
        << "only the questions of this test, AUTH and INFO";
}

TEST_F(RedisTls, PlainWordsToATlsPortAreAnErrorInTime) {
    StoreClient client("redis://:pw@127.0.0.1:" + std::to_string(server_->tls_port()), 1000ms);
    EXPECT_TRUE(std::holds_alternative<Error>(client.acquire("k", grant(1), {.limit = 1000ms})));
    StoreClient other("rediss://:pw@127.0.0.1:" + std::to_string(server_->port()) + "?" + ca(), 1000ms);
    EXPECT_TRUE(std::holds_alternative<Error>(other.acquire("k", grant(1), {.limit = 1000ms})));
}

TEST_F(RedisTls, ManyThreadsShareASession) {
    StoreClient client(url("localhost", ca()));
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (unsigned i = 0; i < 100; ++i) {
                const std::string key = "t" + std::to_string(t);
                fence_of(client.acquire(key, grant(t * 1000 + i)));
                EXPECT_EQ(client.release(key, grant(t * 1000 + i)).value(), Released::released);
            }
        });
    }
    for (auto& thread : threads) thread.join();
}

TEST(RedisTlsClient, ShowsItsCertificateWhereTheServerAsks) {
    RedisServer server(
        {.password = {}, .users = {}, .replica_of = {}, .tls = true, .more = {"tls-auth-clients yes"}});
    const std::string base =
        "rediss://localhost:" + std::to_string(server.tls_port()) + "?ca=" + server.file("ca.crt");
    StoreClient with(base + "&cert=" + server.file("client.crt") + "&key=" + server.file("client.key"));
    fence_of(with.acquire("k", grant(1)));
    StoreClient without(base);
    EXPECT_TRUE(std::holds_alternative<Error>(without.acquire("k", grant(2))));
}

// ---------------------------------------------------------------------------------------------------
// The primary

TEST(RedisCandidates, ThePrimaryIsFoundAndFoundAgain) {
    RedisServer primary;
    RedisServer replica({.password = {}, .users = {}, .replica_of = primary.port(), .more = {}});
    ASSERT_TRUE(replica.wait_for_log("MASTER <-> REPLICA sync: Finished with success"));
    StoreClient client("redis://127.0.0.1:" + std::to_string(replica.port()) +
                       ",127.0.0.1:" + std::to_string(primary.port()));
    fence_of(client.acquire("k", grant(1)));
    // They change places: no request fails, each is sent again to the new primary.
    replica.command({"REPLICAOF", "NO", "ONE"});
    primary.command({"REPLICAOF", "127.0.0.1", std::to_string(replica.port())});
    fence_of(client.acquire("k2", grant(2)));
    EXPECT_EQ(replica.command({"EXISTS", "dlock:{k2}"}), "1");
    // The first is gone, its twin takes over.
    replica.stop();
    primary.command({"REPLICAOF", "NO", "ONE"});
    EXPECT_TRUE(comes_back(client, "k3"));
}

TEST(RedisCandidates, OnlyAReplicaIsUnavailableAndSaysWhy) {
    RedisServer primary;
    RedisServer replica({.password = {}, .users = {}, .replica_of = primary.port(), .more = {}});
    for (const std::string& hosts : {std::string(), ",127.0.0.1:" + std::to_string(free_port())}) {
        StoreClient client("redis://127.0.0.1:" + std::to_string(replica.port()) + hosts);
        const Error error = error_of_answer(client.acquire("k", grant(1)));
        EXPECT_EQ(error, errc::unavailable) << error.message();
        EXPECT_EQ(error.fault, Fault::retry);
        EXPECT_NE(error.detail.find(hosts.empty() ? "READONLY" : "is a slave, not the primary"),
                  std::string::npos)
            << error.detail;
    }
}

TEST(RedisCandidates, AReplicaThatLostItsPrimaryIsPassedOver) {
    RedisServer primary;
    RedisServer replica(
        {.password = {}, .users = {}, .replica_of = free_port(), .more = {"replica-serve-stale-data no"}});
    StoreClient alone(url_of(replica.port()));
    const Error error = error_of_answer(alone.acquire("k", grant(1)));
    EXPECT_EQ(error, errc::unavailable);
    EXPECT_NE(error.detail.find("MASTERDOWN"), std::string::npos) << error.detail;
    StoreClient both("redis://127.0.0.1:" + std::to_string(replica.port()) +
                     ",127.0.0.1:" + std::to_string(primary.port()));
    fence_of(both.acquire("k", grant(1)));
}

TEST(RedisCandidates, LoadingIsWaitedOutOrReported) {
    std::atomic<bool> loading = true;
    FakeServer server([&](const std::vector<std::string>& command) -> std::string {
        if (command[0] == "CLIENT") return "+OK\r\n";
        return loading ? "-LOADING Redis is loading the dataset in memory\r\n" : "$1\r\n5\r\n";
    });
    StoreClient client(server.url());
    const Error error = error_of_answer(client.acquire("k", grant(1)));
    EXPECT_EQ(error, errc::unavailable);
    EXPECT_EQ(error.fault, Fault::retry);
    EXPECT_NE(error.detail.find("LOADING"), std::string::npos) << error.detail;
    loading = false;
    fence_of(client.acquire("k", grant(1)));
}

// ---------------------------------------------------------------------------------------------------
// Loss

class RedisLoss : public ::testing::Test {
protected:
    RedisLoss() : proxy_(server_.port()), client_(url_of(proxy_.port()), 1000ms) {
        fence_of(client_.acquire("warm", grant(1000)));
        EXPECT_EQ(client_.release("warm", grant(1000)).value(), Released::released);
    }
    std::string redis(const std::vector<std::string>& parts) const { return server_.command(parts); }

    RedisServer server_;
    FaultProxy proxy_;
    StoreClient client_;
};

TEST_F(RedisLoss, CutBeforeAndAfterTheEffectIsUnknownAndARepeatSettlesIt) {
    using Way = FaultProxy::Way;
    unsigned id = 0;
    for (const Way way : {Way::to_server, Way::to_client}) {
        const std::string key = way == Way::to_server ? "before" : "after";
        proxy_.lose(way, 1);
        const Error error = error_of_answer(client_.acquire(key, grant(++id)));
        EXPECT_EQ(error, errc::unknown_outcome) << key;
        EXPECT_EQ(error.fault, Fault::indeterminate) << key;
        const std::string stored = redis({"HGET", "dlock:{" + key + "}", "f"});
        EXPECT_EQ(stored == "(nil)", way == Way::to_server);
        const std::uint64_t fence = fence_of(client_.acquire(key, grant(id), {.route = Route::fresh}));
        EXPECT_EQ(std::to_string(fence) == stored, way == Way::to_client) << "the same grant";
        proxy_.lose(way, 1);
        const auto lost = client_.release(key, grant(id), std::nullopt, Route::fresh);
        EXPECT_EQ(failure_of(lost).fault, Fault::indeterminate) << key;
        EXPECT_EQ(client_.release(key, grant(id)).value(),
                  way == Way::to_server ? Released::released : Released::not_owner);
    }
}

TEST_F(RedisLoss, EveryCallOfAPipelineHasItsAnswerWhereverItIsCut) {
    for (const auto way : {FaultProxy::Way::to_server, FaultProxy::Way::to_client}) {
        for (std::size_t nth = 1; nth <= 24; nth += 3) {
            proxy_.lose(way, nth);
            std::vector<std::future<AcquireAnswer>> answers;
            const std::string key =
                "p" + std::to_string(nth) + (way == FaultProxy::Way::to_server ? "s" : "c");
            for (unsigned i = 0; i < 20; ++i)
                answers.push_back(client_.start_acquire(key + "/" + std::to_string(i), grant(i)));
            for (unsigned i = 0; i < 20; ++i) {
                ASSERT_EQ(answers[i].wait_for(patience), std::future_status::ready);
                const AcquireAnswer answer = answers[i].get();
                const bool stored = redis({"EXISTS", "dlock:{" + key + "/" + std::to_string(i) + "}"}) == "1";
                if (granted(answer)) {
                    EXPECT_TRUE(stored);
                } else {
                    const Error error = error_of_answer(answer);
                    EXPECT_TRUE(error.fault == Fault::indeterminate || !stored) << error.message();
                }
            }
            proxy_.heal();
        }
    }
}

TEST_F(RedisLoss, ARestartedServerIsFoundAndItsScriptsAreLoadedAgain) {
    server_.restart();
    EXPECT_TRUE(comes_back(client_, "k1"));
    redis({"SCRIPT", "FLUSH"});
    fence_of(client_.acquire("k2", grant(2)));
    std::vector<std::future<AcquireAnswer>> answers;
    redis({"SCRIPT", "FLUSH"});
    for (unsigned i = 0; i < 64; ++i)
        answers.push_back(client_.start_acquire("m" + std::to_string(i), grant(i)));
    for (auto& answer : answers) fence_of(answer.get());
}

TEST_F(RedisLoss, AFrozenServerIsLeftForANewConnection) {
    server_.freeze();
    auto stuck = client_.start_acquire("k", grant(1), {.limit = 300ms});
    ASSERT_EQ(stuck.wait_for(patience), std::future_status::ready);
    EXPECT_EQ(error_of_answer(stuck.get()).fault, Fault::indeterminate) << "it was sent";
    // Not sent any more, since the connection is known to be dead: nobody can mistake that for a grant.
    const Error error = error_of_answer(client_.acquire("k", grant(2), {.limit = 300ms}));
    EXPECT_EQ(error.fault, Fault::retry) << error.message();
    server_.thaw();
    EXPECT_TRUE(comes_back(client_, "k3"));
}

TEST_F(RedisLoss, FreshGoesPastAStuckConnection) {
    proxy_.black_hole(FaultProxy::Way::to_client);
    const std::size_t before = proxy_.bytes(FaultProxy::Way::to_client);
    auto stuck = client_.start_acquire("k", grant(1), {.limit = 500ms});
    ASSERT_TRUE(proxy_.wait_for_bytes(FaultProxy::Way::to_client, before + 1));
    proxy_.heal();
    fence_of(stuck.get());
    const std::size_t connections = proxy_.accepted();
    fence_of(client_.acquire("k", grant(1), {.route = Route::fresh}));
    EXPECT_EQ(proxy_.accepted(), connections + 1);
    fence_of(client_.acquire("k", grant(1), {.route = Route::fresh}));
    EXPECT_EQ(proxy_.accepted(), connections + 1) << "it owes no answer, so it serves again";
}

TEST_F(RedisLoss, RenewalsAreNotBehindAcquires) {
    fence_of(client_.acquire("k", grant(1)));
    EXPECT_EQ(client_.renew("k", grant(1), 30s).renewal, Renewal::renewed);
    EXPECT_EQ(proxy_.accepted(), 2U);
    proxy_.lose(FaultProxy::Way::to_client, 1);
    const auto answers = client_.renew(
        {RenewItem{.subject = client_.subject("k"), .id = grant(1), .lease = 30s, .handle = {}}});
    EXPECT_EQ(answers.front().renewal, Renewal::unknown);
    EXPECT_FALSE(answers.front().detail.empty());
    EXPECT_EQ(client_.renew("k", grant(1), 30s).renewal, Renewal::renewed);
}

TEST_F(RedisLoss, NothingIsSentAfterItsDeadline) {
    const std::size_t sent = proxy_.messages(FaultProxy::Way::to_server);
    const Error error = error_of_answer(client_.acquire("k", grant(1), {.limit = -1ms}));
    EXPECT_EQ(error, errc::unavailable);
    EXPECT_EQ(error.fault, Fault::retry);
    EXPECT_EQ(proxy_.messages(FaultProxy::Way::to_server), sent);
    EXPECT_EQ(redis({"EXISTS", "dlock:{k}"}), "0");
}

TEST_F(RedisLoss, AFullBufferNeitherBlocksTheCallerNorSendsLate) {
    server_.freeze();
    const std::string key(1024, 'k');
    std::vector<std::future<AcquireAnswer>> answers;
    for (unsigned i = 0; i < 4000; ++i)
        answers.push_back(client_.start_acquire(key, grant(i), {.limit = 400ms}));
    // The server is stopped still: a caller that blocked would not have come here.
    std::size_t unsent = 0;
    for (auto& answer : answers) {
        ASSERT_EQ(answer.wait_for(patience), std::future_status::ready);
        const Error error = error_of_answer(answer.get());
        EXPECT_NE(error.fault, Fault::fatal);
        if (error.fault == Fault::retry) ++unsent;
    }
    EXPECT_GT(unsent, 3000U) << "with some unanswered, the rest waits and is not sent";
    server_.thaw();
    EXPECT_TRUE(comes_back(client_, "k3"));
}

TEST_F(RedisLoss, SixtyFourPipelinedCallersShareOneConnection) {
    const std::size_t connections = proxy_.accepted();
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 64; ++t) {
        threads.emplace_back([&, t] {
            const std::string key = "t" + std::to_string(t % 16);
            for (unsigned i = 0; i < 30; ++i) {
                const GrantId id = grant(t * 1000 + i);
                const AcquireAnswer answer = client_.acquire(key, id);
                if (!granted(answer)) {
                    EXPECT_TRUE(std::holds_alternative<Contended>(answer));
                    continue;
                }
                EXPECT_EQ(client_.release(key, id).value(), Released::released);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(proxy_.accepted(), connections);
}

TEST_F(RedisLoss, EachSideOfAnExchangeMayBeSlow) {
    proxy_.delay(FaultProxy::Way::to_server, 20ms);
    proxy_.delay(FaultProxy::Way::to_client, 20ms);
    for (unsigned i = 0; i < 5; ++i) fence_of(client_.acquire("k" + std::to_string(i), grant(i)));
}

TEST(RedisClose, WithCallsUnansweredDropsThem) {
    RedisServer server;
    FaultProxy proxy(server.port());
    auto client = std::make_unique<StoreClient>(url_of(proxy.port()));
    fence_of(client->acquire("k", grant(1)));
    proxy.black_hole(FaultProxy::Way::to_client);
    auto dropped = client->start_acquire("k2", grant(2));
    client.reset();
    EXPECT_THROW(dropped.get(), std::future_error) << "the completion died without a call";
}

}  // namespace
}  // namespace dlock::store::redis
