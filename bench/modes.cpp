// SPDX-License-Identifier: Apache-2.0
// Readers and writers, permits, and many keys that are used once.
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "dlock/dlock.hpp"
#include "redis_wire.hpp"
#include "support.hpp"

namespace bench {

namespace {

using Take = std::function<dlock::Lease()>;

double pairs_per_second(milliseconds slice, const Take& take) {
    for (int i = 0; i < 20; ++i) static_cast<void>(take().release().value());
    const auto begin = Clock::now();
    double pairs = 0;
    for (; Clock::now() - begin < slice; ++pairs) static_cast<void>(take().release().value());
    return pairs / seconds(Clock::now() - begin);
}

/// Each mode beside the exclusive one, on keys of their own, in turn.
void compare(const std::string& store, const std::string& url, const Settings& settings) {
    const auto client = dlock::Client::open(url).value();
    const Take exclusive = [mutex = client.mutex(dlock::Key{"bench-exclusive"})]() mutable {
        return mutex.try_acquire().value();
    };
    const std::pair<const char*, Take> modes[] = {
        {"write", [both = client.shared_mutex(
                       dlock::Key{"bench-both"})]() mutable { return both.try_acquire().value(); }},
        {"shared", [both = client.shared_mutex(
                        dlock::Key{"bench-both"})]() mutable { return both.try_acquire_shared().value(); }},
        {"permit", [some = client.semaphore(dlock::Key{"bench-permits"}, 10)]() mutable {
             return some.try_acquire().value();
         }}};
    for (const auto& [name, take] : modes)
        alternate(
            store + "-" + name, "pairs/s", settings.rounds,
            [&, &mode = take] { return pairs_per_second(settings.slice, mode); },
            [&] { return pairs_per_second(settings.slice, exclusive); });
}

/// 1,000 async callers that want one of 100 permits all the time; each holds it until 100 more were granted,
/// so that every grant waits for a release.
class PermitHerd {
public:
    PermitHerd(const dlock::Client& client, int waiters, std::uint32_t permits)
        : semaphore_(client.semaphore(dlock::Key{"bench-permit-herd"}, permits)),
          permits_(permits),
          running_(waiters) {}

    void start() {
        for (int i = running_; i > 0; --i) acquire();
    }
    void stop() {
        stop_ = true;
        std::unique_lock lock(guard_);
        while (!ended_.wait_for(lock, milliseconds(1), [&] { return running_ == 0; })) {
            std::deque<dlock::Lease> last = std::exchange(held_, {});
            lock.unlock();
            for (auto& lease : last) release(std::move(lease));
            lock.lock();
        }
        if (!failure_.empty()) throw std::runtime_error(failure_);
    }
    [[nodiscard]] std::uint64_t grants() const noexcept { return grants_; }

private:
    void acquire() {
        semaphore_.start_acquire(
            {.wait = dlock::forever}, {},
            [this](dlock::Result<dlock::Lease> got) {
                if (!got) return end(got.error().message());
                ++grants_;
                std::optional<dlock::Lease> oldest;
                {
                    const std::lock_guard lock(guard_);
                    held_.push_back(*std::move(got));
                    if (held_.size() < permits_) return;
                    oldest = std::move(held_.front());
                    held_.pop_front();
                }
                release(*std::move(oldest));
            },
            dlock::Lease::Deliver::direct);
    }
    void release(dlock::Lease held) {
        const auto lease = std::make_shared<dlock::Lease>(std::move(held));
        lease->start_release(
            [this, lease](dlock::Result<void> released) {
                if (!released) return end(released.error().message());
                if (stop_) return end({});
                acquire();
            },
            dlock::Lease::Deliver::direct);
    }
    void end(const std::string& failure) {
        const std::lock_guard lock(guard_);
        if (!failure.empty()) failure_ = failure;
        if (--running_ == 0) ended_.notify_all();
    }

    dlock::Semaphore semaphore_;
    const std::uint32_t permits_;
    std::atomic<std::uint64_t> grants_{0};
    std::atomic<bool> stop_{false};
    std::mutex guard_;
    std::condition_variable ended_;
    std::deque<dlock::Lease> held_;
    int running_;
    std::string failure_;
};

/// Readers that hold for `hold` and come again at once.
class Readers {
public:
    Readers(const dlock::Client& client, const dlock::Key& key, int count, milliseconds hold) {
        for (int i = 0; i < count; ++i)
            threads_.emplace_back([=](const std::stop_token& stop) {
                auto both = client.shared_mutex(key);
                while (!stop.stop_requested()) {
                    const auto lease = both.acquire_shared();
                    std::this_thread::sleep_for(hold);
                }
            });
    }

private:
    std::vector<std::jthread> threads_;
};

}  // namespace

void memory_modes(const Settings& settings) { compare("memory", "memory:bench-modes", settings); }
void sqlite_modes(const Settings& settings) {
    compare("sqlite", "sqlite:" + settings.dir + "/modes.db", settings);
}
void redis_modes(const Settings& settings) { compare("redis", settings.redis_url(), settings); }

/// The writer's wait beyond what it must wait for: one reader's hold. In units of a hand-over it may take
/// one.
void redis_readers_64(const Settings& settings) {
    constexpr milliseconds hold{20};
    const auto client = dlock::Client::open(settings.redis_url()).value();
    const dlock::Key key{"bench-readers"};
    const Readers readers(client, key, 64, hold);
    const auto other = dlock::Client::open(settings.redis_url()).value();
    auto writer = other.shared_mutex(key);
    Samples waits;
    for (int round = 0; round < settings.rounds; ++round) {
        Samples some;
        for (int i = 0; i < 20; ++i) {
            std::this_thread::sleep_for(hold + milliseconds(i));
            const auto begin = Clock::now();
            const auto lease = writer.acquire();
            some.push_back(micros(Clock::now() - begin) / 1000);
        }
        waits.push_back(median(some));
    }
    report("redis-readers-64", "ms", waits, Samples(waits.size(), static_cast<double>(hold.count())));
}

void redis_permits_1000(const Settings& settings) {
    Wire wire(settings.port);
    const auto client = dlock::Client::open(settings.redis_url()).value();
    Samples calls;
    Samples rate;
    for (int round = 0; round < settings.rounds; ++round) {
        PermitHerd herd(client, 1000, 100);
        herd.start();
        while (herd.grants() < 200) std::this_thread::sleep_for(milliseconds(1));
        const auto made = hand_overs(wire, settings.slice, [&] { return herd.grants(); });
        calls.push_back(made.calls);
        rate.push_back(made.per_second);
        herd.stop();
    }
    report("redis-permits-1000", "calls/hand-over", calls, Samples(calls.size(), 2.0));
    report("redis-permits-1000-rate", "hand-overs/s", rate);
}

/// A million keys, each used once: what the client keeps of them. The fence of a key that is used again is
/// higher, or it throws.
void one_shot_keys(const Settings& settings) {
    constexpr int keys = 1'000'000;
    const auto client = dlock::Client::open("sqlite:" + settings.dir + "/keys.db").value();
    const auto use = [&](int i) {
        const auto lease = client.mutex(dlock::Key{"bench-key/" + std::to_string(i)}).try_acquire().value();
        return lease.fence()->value;
    };
    const auto first = use(0);
    for (int i = 1; i < 20'000; ++i) use(i);
    const std::size_t before = resident_bytes();
    for (int i = 20'000; i < keys; ++i) use(i);
    const auto grown = static_cast<double>(resident_bytes()) - static_cast<double>(before);
    if (use(0) <= first) throw std::runtime_error("a fence did not rise");
    report("one-shot-keys", "MB", {grown / 1e6});
}

}  // namespace bench
