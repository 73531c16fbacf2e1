// SPDX-License-Identifier: Apache-2.0
// Hand-over on Redis: between two processes, and among 1,000 waiters of one process.
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "dlock/dlock.hpp"
#include "redis_wire.hpp"
#include "support.hpp"

namespace bench {

namespace {

constexpr int turns = 45;

/// The least that can be done: SET NX, wait for a message, SET NX again; DEL and PUBLISH in one send.
Sides raw_sides(std::uint16_t port, int me) {
    struct Mine {
        Wire calls;
        Wire messages;
        explicit Mine(std::uint16_t port) : calls(port), messages(port) {}
    };
    auto mine = std::make_shared<Mine>(port);
    mine->messages.call({"SUBSCRIBE", "bench-raw-" + std::to_string(me)});
    const std::string other = "bench-raw-" + std::to_string(1 - me);
    auto acquire = [mine] {
        while (mine->calls.call({"SET", "bench-raw", "me", "NX", "PX", "30000"})->type == REDIS_REPLY_NIL)
            mine->messages.read();
    };
    auto release = [mine, other] {
        mine->calls.append({"DEL", "bench-raw"});
        mine->calls.append({"PUBLISH", other, "1"});
        mine->calls.flush();
        mine->calls.read();
        mine->calls.read();
    };
    return {acquire, release};
}

/// 1,000 async callers that want one key all the time and do no work under it.
class Herd {
public:
    Herd(const dlock::Client& client, int waiters)
        : mutex_(client.mutex(dlock::Key{"bench-herd"})), leases_(static_cast<std::size_t>(waiters)) {}

    void start() {
        running_ = static_cast<int>(leases_.size());
        for (auto& lease : leases_) acquire(lease);
    }
    void stop() {
        stop_ = true;
        std::unique_lock lock(guard_);
        ended_.wait(lock, [&] { return running_ == 0; });
        if (!failure_.empty()) throw std::runtime_error(failure_);
    }
    [[nodiscard]] std::uint64_t grants() const noexcept { return grants_; }

private:
    void acquire(std::optional<dlock::Lease>& lease) {
        mutex_.start_acquire(
            {.wait = dlock::forever}, {},
            [this, &lease](dlock::Result<dlock::Lease> got) {
                if (!got) return end(got.error().message());
                ++grants_;
                lease = *std::move(got);
                release(lease);
            },
            dlock::Lease::Deliver::direct);
    }
    void release(std::optional<dlock::Lease>& lease) {
        lease->start_release(
            [this, &lease](dlock::Result<void> released) {
                if (!released) return end(released.error().message());
                if (stop_) return end({});
                acquire(lease);
            },
            dlock::Lease::Deliver::direct);
    }
    void end(const std::string& failure) {
        const std::lock_guard lock(guard_);
        if (!failure.empty()) failure_ = failure;
        if (--running_ == 0) ended_.notify_all();
    }

    dlock::Mutex mutex_;
    std::vector<std::optional<dlock::Lease>> leases_;
    std::atomic<std::uint64_t> grants_{0};
    std::atomic<bool> stop_{false};
    std::mutex guard_;
    std::condition_variable ended_;
    int running_ = 0;
    std::string failure_;
};

/// A local queue over one socket: two scripts a hand-over, one after the other.
double raw_hand_overs(Wire& wire, const PairScript& script, milliseconds slice) {
    const auto acquire = script.acquire("bench-herd-raw", 7);
    const auto release = script.release("bench-herd-raw", 7);
    const auto begin = Clock::now();
    double pairs = 0;
    for (; Clock::now() - begin < slice; ++pairs) {
        wire.call(acquire);
        wire.call(release);
    }
    return pairs / seconds(Clock::now() - begin);
}

}  // namespace

void redis_handover(const Settings& settings) {
    alternate(
        "redis-handover", "us", settings.rounds,
        [&] {
            return median(
                hand_over(turns, [&](int) { return dlock_sides(settings.redis_url(), "bench-handover"); }));
        },
        [&] { return median(hand_over(turns, [&](int me) { return raw_sides(settings.port, me); })); });
}

void waiters_1000(const Settings& settings) {
    const auto script = PairScript::record(settings.port);
    Wire wire(settings.port);
    auto client = dlock::Client::open(settings.redis_url()).value();
    Samples calls;
    Samples rate;
    Samples raw_rate;
    for (int round = 0; round < settings.rounds; ++round) {
        Herd herd(client, 1000);
        herd.start();
        while (herd.grants() < 100) std::this_thread::sleep_for(milliseconds(1));
        const auto made = hand_overs(wire, settings.slice, [&] { return herd.grants(); });
        calls.push_back(made.calls);
        rate.push_back(made.per_second);
        herd.stop();
        raw_rate.push_back(raw_hand_overs(wire, script, settings.slice));
    }
    report("waiters-1000", "calls/hand-over", calls, Samples(calls.size(), 2.0));
    report("waiters-1000-rate", "hand-overs/s", rate, raw_rate);
}

}  // namespace bench
