// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/asio_loop.hpp"
#include "store/redis/redis_store.hpp"
#include "support/fault_proxy.hpp"
#include "support/redis_server.hpp"

/// What the tests of the Redis store share: the store on a real loop, with calls that wait for their answer.
namespace dlock::store::redis {

using namespace std::chrono_literals;
using testing::FaultProxy;
using testing::free_port;
using testing::RedisOptions;
using testing::RedisServer;

inline constexpr auto patience = 20s;

/// How an acquisition is asked for; trivial, so that tests name only what matters.
struct Ask {
    milliseconds lease{30000};
    TicketId ticket{};  ///< zero: does not join the line
    milliseconds ticket_lease{5000};
    bool rejoins = false;
    Route route = Route::usual;
    milliseconds limit{patience};
    core::Mode mode = core::Mode::exclusive;
    std::uint32_t permits = 0;
    std::optional<Fence> converts{};
    AcquireRequest::Results results = AcquireRequest::Results::ignore;
};

class StoreClient {
public:
    /// `instance`: names the client's channel.
    explicit StoreClient(const std::string& url, milliseconds call_timeout = 2000ms,
                         std::string instance = "i1");
    StoreClient(const StoreClient&) = delete;
    StoreClient& operator=(const StoreClient&) = delete;
    ~StoreClient();

    [[nodiscard]] Store& store() { return *store_; }
    [[nodiscard]] Loop& loop() { return loop_; }

    [[nodiscard]] AcquireRequest request(const std::string& key, const GrantId& attempt, Ask ask = {}) const;
    AcquireAnswer acquire(const std::string& key, const GrantId& attempt, Ask ask = {});
    std::future<AcquireAnswer> start_acquire(const std::string& key, const GrantId& attempt, Ask ask = {});
    std::vector<RenewAnswer> renew(std::vector<RenewItem> items, Route route = Route::usual,
                                   milliseconds limit = patience);
    RenewAnswer renew(const std::string& key, const GrantId& attempt, milliseconds lease,
                      const std::string& handle = {});
    RenewAnswer renew(const std::string& key, const TicketId& ticket, milliseconds lease);
    Result<Released> release(const std::string& key, const GrantId& attempt,
                             std::optional<TicketId> ticket = std::nullopt, Route route = Route::usual);
    Result<Released> release(const ReleaseRequest& request);
    Result<Configured> configure(const std::string& key, std::uint32_t permits,
                                 std::optional<std::uint32_t> if_current = std::nullopt);
    Result<Page> list(const Filter& filter = {});
    Result<Page> show(const std::string& key);
    Result<Forced> force(const std::string& key, const std::string& seen);

    /// The holder's owner of acquisitions from now on.
    void owner(Owner owner) { owner_ = std::make_shared<const Owner>(std::move(owner)); }
    [[nodiscard]] SubjectPtr subject(const std::string& key) const;
    [[nodiscard]] Call call(Route route = Route::usual, milliseconds limit = patience) const;

private:
    engine::AsioLoop loop_;
    std::unique_ptr<Store> store_;
    std::shared_ptr<const Owner> owner_;
};

/// Waits for the answer of one call that `start(done)` begins.
template <class Answer, class Start>
Answer answer_of(Start start) {
    auto promise = std::make_shared<std::promise<Answer>>();
    auto future = promise->get_future();
    start([promise](Answer answer) { promise->set_value(std::move(answer)); });
    if (future.wait_for(patience) != std::future_status::ready)
        throw std::runtime_error("no answer from the store");
    return future.get();
}

/// An owner with only a service.
Owner named(std::string service);
GrantId grant(unsigned number);
TicketId ticket(unsigned number);

/// The fence of a granted answer; 0 for any other, which also fails the test.
std::uint64_t fence_of(const AcquireAnswer& answer);
/// The error of an answer that is one.
Error error_of_answer(const AcquireAnswer& answer);
template <class T>
Error failure_of(const Result<T>& result) {
    return result ? Error(errc::store_error, "no error") : result.error();
}

/// Counts events from any thread and lets a test wait for them.
class Counter {
public:
    void hit() {
        const std::lock_guard lock(mutex_);
        ++count_;
        changed_.notify_all();
    }
    bool wait_for(std::size_t count, milliseconds limit = patience) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, limit, [&] { return count_ >= count; });
    }
    [[nodiscard]] std::size_t count() const {
        const std::lock_guard lock(mutex_);
        return count_;
    }

private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t count_ = 0;
};

/// A server of the test's own: gets each command and gives back the bytes to send, and may count on that they
/// are sent one by one. An empty answer: silence.
class FakeServer {
public:
    enum class Pieces { whole, bytes };
    using Answer = std::function<std::string(const std::vector<std::string>& command)>;

    explicit FakeServer(Answer answer, Pieces pieces = Pieces::whole);
    FakeServer(const FakeServer&) = delete;
    FakeServer& operator=(const FakeServer&) = delete;
    ~FakeServer();
    [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

private:
    void run();
    void serve(int fd);

    Answer answer_;
    Pieces pieces_;
    std::uint16_t port_ = 0;
    int listener_ = -1;
    int stop_ = -1;
    std::thread thread_;
};

}  // namespace dlock::store::redis
