// SPDX-License-Identifier: Apache-2.0
// What 100,000 held leases cost the process that holds them.
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include <unistd.h>

#include "dlock/dlock.hpp"
#include "redis_wire.hpp"
#include "support.hpp"

namespace bench {

namespace {

constexpr std::size_t leases = 100'000;
constexpr std::size_t in_flight = 256;
constexpr std::chrono::seconds lease_time{30};
constexpr std::chrono::seconds renewal_period{10};  // a third of the lease

/// Takes all the leases, at most `in_flight` calls at once.
class Holder {
public:
    explicit Holder(dlock::Client client) : client_(std::move(client)), held_(leases) {}

    void take_all() {
        running_ = in_flight;
        for (std::size_t i = 0; i < in_flight; ++i) take_next();
        std::unique_lock lock(guard_);
        ended_.wait(lock, [&] { return running_ == 0; });
        if (!failure_.empty()) throw std::runtime_error(failure_);
    }
    [[nodiscard]] std::size_t held() const {
        std::size_t count = 0;
        for (const auto& lease : held_) count += lease && lease->held() ? 1 : 0;
        return count;
    }

private:
    void take_next() {
        const std::size_t slot = next_++;
        if (slot >= leases) return end({});
        auto mutex = client_.mutex(dlock::Key{"bench/held/" + std::to_string(slot)});
        mutex.start_acquire(
            {.lease = lease_time}, {},
            [this, slot](dlock::Result<dlock::Lease> got) {
                if (!got) return end(got.error().message());
                held_[slot] = *std::move(got);
                take_next();
            },
            dlock::Lease::Deliver::direct);
    }
    void end(const std::string& failure) {
        const std::lock_guard lock(guard_);
        if (!failure.empty()) failure_ = failure;
        if (--running_ == 0) ended_.notify_all();
    }

    dlock::Client client_;
    std::vector<std::optional<dlock::Lease>> held_;
    std::atomic<std::size_t> next_{0};
    std::mutex guard_;
    std::condition_variable ended_;
    std::size_t running_ = 0;
    std::string failure_;
};

}  // namespace

void redis_100k(const Settings& settings) {
    auto client = dlock::Client::open(settings.redis_url()).value();
    client.mutex(dlock::Key{"bench/warm"}).try_acquire().value().release().value();
    Holder holder(client);
    Wire wire(settings.port);
    const auto empty = resident_bytes();
    holder.take_all();
    const auto periods = settings.rounds > 3 ? 3 : 2;
    std::this_thread::sleep_for(renewal_period);  // the first renewals, spread as the acquires were
    const auto calls = script_calls(wire);
    const auto cpu = cpu_time(getpid());
    std::this_thread::sleep_for(renewal_period * periods);
    const auto used = cpu_time(getpid()) - cpu;
    const auto called = static_cast<double>(script_calls(wire) - calls);
    const auto memory = static_cast<double>(resident_bytes() - empty) / static_cast<double>(leases);
    if (const auto held = holder.held(); held != leases)
        throw std::runtime_error("only " + std::to_string(held) + " of the leases are still held");
    report("redis-100k-cpu", "% of a core", {100.0 * seconds(used) / seconds(renewal_period * periods)});
    report("redis-100k-calls", "calls/100 leases", {called * 100.0 / static_cast<double>(leases) / periods});
    report("redis-100k-memory", "bytes/lease", {memory});
    _exit(0);  // the server goes too; 100,000 releases would only take time
}

}  // namespace bench
