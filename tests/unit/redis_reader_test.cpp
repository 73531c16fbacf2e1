// SPDX-License-Identifier: Apache-2.0
/// Who reads the socket: blocked callers pass the right around, the loop has it otherwise.
#include <semaphore>

#include "dlock/dlock.hpp"
#include "engine/gate.hpp"
#include "unit/redis_fixture.hpp"

namespace dlock::store::redis {
namespace {

std::string url_of(std::uint16_t port, const std::string& rest = "") {
    return "redis://127.0.0.1:" + std::to_string(port) + rest;
}

struct Heard {
    AcquireAnswer answer;
    std::thread::id reader;  ///< where the completion ran
};

/// A blocking acquire on a thread of its own, waited for as the engine does it.
class Caller {
public:
    Caller(StoreClient& client, const std::string& key, const GrantId& id,
           TimePoint give_up = TimePoint::max(), Ask ask = {}) {
        thread_ = std::thread([this, &client, give_up, request = client.request(key, id, ask)] {
            auto gate = std::make_shared<engine::Gate<Heard>>(give_up);
            heard_.set_value(gate->ask([&] {
                client.store().acquire(request, client.call(), [gate](AcquireAnswer answer) {
                    gate->put({std::move(answer), std::this_thread::get_id()});
                });
                asked_.set_value();
            }));
        });
        EXPECT_EQ(asked_.get_future().wait_for(patience), std::future_status::ready);
    }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    ~Caller() { thread_.join(); }

    /// Nothing when it gave up.
    std::optional<Heard> get() { return heard_.get_future().get(); }
    /// Its answer, which itself must have read.
    AcquireAnswer read_by_itself() {
        auto heard = get();
        if (!heard) throw std::runtime_error("the caller gave up");
        EXPECT_EQ(heard->reader, thread_.get_id());
        return std::move(heard->answer);
    }
    [[nodiscard]] std::thread::id thread() const { return thread_.get_id(); }

private:
    std::promise<void> asked_;
    std::promise<std::optional<Heard>> heard_;
    std::thread thread_;
};

/// Answers each acquire when the test says so.
class SlowServer {
public:
    [[nodiscard]] std::string url() const { return server_.url(); }
    void answer(std::ptrdiff_t times = 1) { go_.release(times); }

private:
    std::counting_semaphore<> go_{0};
    FakeServer server_{[this](const std::vector<std::string>& command) -> std::string {
        if (command[0] == "CLIENT") return "+OK\r\n";
        go_.acquire();
        return "$1\r\n5\r\n";
    }};
};

TEST(RedisReader, ABlockedCallerReadsItsOwnAnswer) {
    RedisServer server;
    StoreClient client(server.url());
    for (unsigned i = 0; i < 20; ++i)
        fence_of(Caller(client, "k" + std::to_string(i), grant(i)).read_by_itself());
}

TEST(RedisReader, TheLoopReadsWithTlsAndWhereTheUrlSaysSo) {
    RedisServer server({.password = {}, .users = {}, .replica_of = {}, .tls = true, .more = {}});
    const std::string tls =
        "rediss://localhost:" + std::to_string(server.tls_port()) + "?ca=" + server.file("ca.crt");
    for (const std::string& url : {tls, url_of(server.port(), "?io=thread")}) {
        StoreClient client(url);
        Caller caller(client, url.substr(0, 6), grant(1));
        const auto heard = caller.get();
        ASSERT_TRUE(heard);
        fence_of(heard->answer);
        EXPECT_NE(heard->reader, caller.thread());
    }
}

TEST(RedisReader, TheRightIsHandedToTheNextCaller) {
    SlowServer server;
    StoreClient client(server.url());
    Caller first(client, "a", grant(1));
    Caller second(client, "b", grant(2));
    Caller third(client, "c", grant(3));
    for (Caller* caller : {&first, &second, &third}) {
        server.answer();
        EXPECT_EQ(fence_of(caller->read_by_itself()), 5U);
    }
}

TEST(RedisReader, AReaderThatTimesOutHandsTheRightOn) {
    SlowServer server;
    StoreClient client(server.url());
    Caller first(client, "a", grant(1), BootClock::now() + 30ms);
    Caller second(client, "b", grant(2));
    EXPECT_FALSE(first.get());
    server.answer(2);
    EXPECT_EQ(fence_of(second.read_by_itself()), 5U) << "not the first one's, which came before";
    server.answer();
    EXPECT_EQ(fence_of(Caller(client, "c", grant(3)).read_by_itself()), 5U);
}

TEST(RedisReader, AReaderThatTimesOutAloneLeavesTheLateReplyToTheLoop) {
    SlowServer server;
    StoreClient client(server.url());
    EXPECT_FALSE(Caller(client, "a", grant(1), BootClock::now() + 30ms).get());
    server.answer(2);
    EXPECT_EQ(fence_of(client.acquire("b", grant(2))), 5U);
}

TEST(RedisReader, AsyncCompletionsRunOnTheLoop) {
    unsigned commands = 0;
    FakeServer server([&](const std::vector<std::string>& command) -> std::string {
        if (command[0] == "CLIENT") return "+OK\r\n";
        return ++commands == 1 ? "" : "$1\r\n5\r\n$1\r\n6\r\n";
    });
    StoreClient client(server.url());
    Caller caller(client, "a", grant(1));
    std::promise<bool> here;
    client.store().acquire(client.request("b", grant(2)), client.call(), [&](const AcquireAnswer& answer) {
        EXPECT_EQ(fence_of(answer), 6U);
        here.set_value(client.loop().here());
    });
    EXPECT_EQ(fence_of(caller.read_by_itself()), 5U) << "it read both";
    EXPECT_TRUE(here.get_future().get());
}

TEST(RedisReader, AWaiterInLineDoesNotHoldTheRight) {
    RedisServer server;
    StoreClient client(server.url());
    fence_of(client.acquire("k", grant(1)));
    Counter queued;
    engine::Gate<bool> gate;
    std::thread waiter([&] {
        gate.ask([&] {
            client.store().acquire(client.request("k", grant(2), {.ticket = ticket(2)}), client.call(),
                                   [&](const AcquireAnswer& answer) {
                                       EXPECT_TRUE(std::holds_alternative<Queued>(answer));
                                       queued.hit();
                                   });
        });
    });
    EXPECT_TRUE(queued.wait_for(1));
    fence_of(Caller(client, "other", grant(3)).read_by_itself());
    gate.put(true);
    waiter.join();
}

TEST(RedisReader, EndOfFileUnderABlockedReaderFailsWhatIsUnanswered) {
    Counter commands;
    auto server = std::make_unique<FakeServer>([&](const std::vector<std::string>& command) -> std::string {
        if (command[0] == "CLIENT") return "+OK\r\n";
        commands.hit();
        return {};
    });
    StoreClient client(server->url());
    Caller reader(client, "a", grant(1));
    Caller follower(client, "b", grant(2));
    auto async = client.start_acquire("c", grant(3));
    EXPECT_TRUE(commands.wait_for(3));
    server.reset();
    for (const AcquireAnswer& answer : {reader.get()->answer, follower.get()->answer, async.get()}) {
        EXPECT_EQ(error_of_answer(answer), errc::unknown_outcome);
        EXPECT_EQ(error_of_answer(answer).fault, Fault::indeterminate);
    }
}

TEST(RedisReader, ACutUnderABlockedReaderIsFollowedByANewConnectionThatItReads) {
    RedisServer server;
    FaultProxy proxy(server.port());
    StoreClient client(url_of(proxy.port()));
    for (unsigned i = 0; i < 10; ++i) {
        const std::string key = "k" + std::to_string(i);
        fence_of(Caller(client, key + "/warm", grant(100 + i)).read_by_itself());
        const std::size_t before = proxy.bytes(FaultProxy::Way::to_client);
        proxy.black_hole(FaultProxy::Way::to_client);
        Caller reader(client, key, grant(i));
        EXPECT_TRUE(proxy.wait_for_bytes(FaultProxy::Way::to_client, before + 1));
        proxy.cut();
        proxy.heal();
        EXPECT_EQ(error_of_answer(reader.get()->answer).fault, Fault::indeterminate);
        fence_of(Caller(client, key, grant(i)).read_by_itself());
    }
}

TEST(RedisReader, AFullSendBufferIsTheLoopsWhileTheCallerReads) {
    RedisServer server;
    StoreClient client(server.url());
    fence_of(Caller(client, "warm", grant(1)).read_by_itself());
    server.freeze();
    // Its name goes out several times: far more than any socket's buffers take.
    Caller big(client, std::string(8UL << 20, 'k'), grant(2));
    Caller small(client, "small", grant(3));
    server.thaw();
    fence_of(big.read_by_itself());
    fence_of(small.get()->answer);
}

TEST(RedisReader, AClientClosesUnderAReader) {
    RedisServer server;
    FaultProxy proxy(server.port());
    Client client = Client::open(url_of(proxy.port()), {.close_within = 100ms}).value();
    EXPECT_TRUE(client.mutex(Key{"warm"}).acquire().release());
    proxy.black_hole(FaultProxy::Way::to_client);
    const std::size_t before = proxy.bytes(FaultProxy::Way::to_client);
    auto reading = std::async(std::launch::async, [mutex = client.mutex(Key{"k"})]() mutable {
        return mutex.try_acquire({.wait = forever});
    });
    EXPECT_TRUE(proxy.wait_for_bytes(FaultProxy::Way::to_client, before + 1));
    static_cast<void>(client.close());
    ASSERT_EQ(reading.wait_for(patience), std::future_status::ready);
    EXPECT_EQ(reading.get().error(), errc::cancelled);
}

}  // namespace
}  // namespace dlock::store::redis
