// SPDX-License-Identifier: Apache-2.0
// Uncontended pairs on Redis: 64 async callers, 64 blocking threads, one blocking caller.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <unistd.h>

#include "dlock/dlock.hpp"
#include "redis_wire.hpp"
#include "support.hpp"

namespace bench {

namespace {

constexpr int callers = 64;

std::string key_of(int caller) { return "bench-caller-" + std::to_string(caller); }

/// A grant is told from a refusal by the shape of the reply; a raw pair that is not a real one must not
/// count.
std::string shape(const redisReply& reply) {
    std::string text = std::to_string(reply.type) + "/" + std::to_string(reply.elements);
    const redisReply& first = reply.elements > 0 ? *reply.element[0] : reply;
    if (first.type == REDIS_REPLY_INTEGER && first.integer < 1000)
        text += "/" + std::to_string(first.integer);
    if (first.type == REDIS_REPLY_STRING && first.len < 16) text += "/" + std::string(first.str, first.len);
    return text;
}

/// What a grant and a release look like. Throws when a held key gives the same answer as a free one.
struct Shapes {
    std::string granted;
    std::string released;

    Shapes(Wire& wire, const PairScript& script) {
        const std::string key = "bench-shapes";
        granted = shape(*wire.call(script.acquire(key, 1)));
        if (shape(*wire.call(script.acquire(key, 2))) == granted)
            throw std::runtime_error("a second grant looks like the first");
        released = shape(*wire.call(script.release(key, 1)));
        if (shape(*wire.call(script.release(key, 1))) == released)
            throw std::runtime_error("a second release looks like the first");
    }
};

void expect(const redisReply& reply, const std::string& wanted) {
    if (const auto got = shape(reply); got != wanted)
        throw std::runtime_error("a raw pair got " + got + ", not " + wanted);
}

/// Async callers of one client: each starts its next call in the completion of the last.
class Chains {
public:
    explicit Chains(const dlock::Client& client) {
        for (int i = 0; i < callers; ++i)
            chains_.push_back({client.mutex(dlock::Key{key_of(i)}), std::nullopt});
    }

    double pairs_per_second(milliseconds slice) {
        stop_ = false;
        running_ = callers;
        pairs_ = 0;
        const auto begin = Clock::now();
        for (auto& chain : chains_) acquire(chain);
        std::this_thread::sleep_for(slice);
        stop_ = true;
        std::unique_lock lock(mutex_);
        ended_.wait(lock, [&] { return running_ == 0; });
        if (!failure_.empty()) throw std::runtime_error(failure_);
        return static_cast<double>(pairs_.load()) / seconds(Clock::now() - begin);
    }

private:
    struct Chain {
        dlock::Mutex mutex;
        std::optional<dlock::Lease> lease;
    };

    void acquire(Chain& chain) {
        chain.mutex.start_acquire(
            {}, {},
            [this, &chain](dlock::Result<dlock::Lease> got) {
                if (!got) return end(got.error().message());
                chain.lease = *std::move(got);
                release(chain);
            },
            dlock::Lease::Deliver::direct);
    }
    void release(Chain& chain) {
        chain.lease->start_release(
            [this, &chain](dlock::Result<void> released) {
                if (!released) return end(released.error().message());
                pairs_.fetch_add(1, std::memory_order_relaxed);
                if (stop_) return end({});
                acquire(chain);
            },
            dlock::Lease::Deliver::direct);
    }
    void end(const std::string& failure) {
        const std::lock_guard lock(mutex_);
        if (!failure.empty()) failure_ = failure;
        if (--running_ == 0) ended_.notify_all();
    }

    std::vector<Chain> chains_;
    std::atomic<bool> stop_{false};
    std::atomic<std::uint64_t> pairs_{0};
    std::mutex mutex_;
    std::condition_variable ended_;
    int running_ = 0;
    std::string failure_;
};

/// One socket with 64 pairs in flight; replies come in the order of the commands, so the slot is a count.
double raw_pipelined(Wire& wire, const PairScript& script, const Shapes& shapes, milliseconds slice) {
    struct Slot {
        Words acquire;
        Words release;
        bool held = false;
        bool ended = false;
    };
    std::vector<Slot> slots;
    for (int i = 0; i < callers; ++i)
        slots.push_back({script.acquire(key_of(i), 7), script.release(key_of(i), 7)});
    std::uint64_t pairs = 0;
    int running = callers;
    const auto begin = Clock::now();
    for (auto& slot : slots) wire.append(slot.acquire);
    std::vector<Slot*> order;
    for (auto& slot : slots) order.push_back(&slot);
    while (running > 0) {
        wire.flush();
        const bool stop = Clock::now() - begin >= slice;
        std::vector<Slot*> next;
        std::size_t done = 0;
        for (Reply reply = wire.read(); reply; reply = wire.read_buffered()) {
            Slot& slot = *order[done++];
            expect(*reply, slot.held ? shapes.released : shapes.granted);
            slot.held = !slot.held;
            pairs += slot.held ? 0 : 1;
            if (!slot.held && stop) {
                --running;
                continue;
            }
            wire.append(slot.held ? slot.release : slot.acquire);
            next.push_back(&slot);
        }
        order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(done));
        order.insert(order.end(), next.begin(), next.end());
    }
    return static_cast<double>(pairs) / seconds(Clock::now() - begin);
}

Pair raw_pair(std::uint16_t port, const PairScript& script, const Shapes& shapes, int caller) {
    return [wire = std::make_shared<Wire>(port), acquire = script.acquire(key_of(caller), 7),
            release = script.release(key_of(caller), 7), &shapes] {
        expect(*wire->call(acquire), shapes.granted);
        expect(*wire->call(release), shapes.released);
    };
}

/// With a pause before each pair that is not timed.
double pair_p50_us(milliseconds slice, const Pair& pair, milliseconds think = milliseconds(0)) {
    for (int i = 0; i < 100; ++i) pair();
    Samples samples;
    const auto end = Clock::now() + slice;
    for (auto now = Clock::now(); now < end;) {
        if (think.count() > 0) std::this_thread::sleep_for(think);
        const auto before = Clock::now();
        pair();
        now = Clock::now();
        samples.push_back(micros(now - before));
    }
    return median(std::move(samples));
}

struct Recorded {
    PairScript script;
    Wire wire;
    Shapes shapes;
    dlock::Client client;

    explicit Recorded(const Settings& settings)
        : script(PairScript::record(settings.port)),
          wire(settings.port),
          shapes(wire, script),
          client(dlock::Client::open(settings.redis_url()).value()) {}
};

}  // namespace

void redis_async_64(const Settings& settings) {
    Recorded it(settings);
    Chains chains(it.client);
    chains.pairs_per_second(milliseconds(200));
    alternate(
        "redis-async-64", "pairs/s", settings.rounds, [&] { return chains.pairs_per_second(settings.slice); },
        [&] { return raw_pipelined(it.wire, it.script, it.shapes, settings.slice); });
}

void redis_threads_64(const Settings& settings) {
    Recorded it(settings);
    const auto raw = [&] {
        return threads_pairs_per_second(
            callers, settings.slice, [&](int i) { return raw_pair(settings.port, it.script, it.shapes, i); });
    };
    const auto ours = [&](Pair (*make_pair)(const dlock::Client&, const std::string&)) {
        return [&, make_pair] {
            const double rate = threads_pairs_per_second(
                callers, settings.slice, [&](int i) { return make_pair(it.client, key_of(i)); });
            // The raw side must find the keys free.
            for (int i = 0; i < callers; ++i) confirmed_pair(it.client, key_of(i))();
            return rate;
        };
    };
    alternate("redis-threads-64", "pairs/s", settings.rounds, ours(scope_pair), raw);
    alternate("redis-threads-64-confirmed", "pairs/s", settings.rounds, ours(confirmed_pair), raw);
}

void redis_threads_2(const Settings& settings) {
    Recorded it(settings);
    alternate(
        "redis-threads-2", "pairs/s", settings.rounds,
        [&] {
            return threads_pairs_per_second(2, settings.slice,
                                            [&](int i) { return confirmed_pair(it.client, key_of(i)); });
        },
        [&] {
            return threads_pairs_per_second(
                2, settings.slice, [&](int i) { return raw_pair(settings.port, it.script, it.shapes, i); });
        });
}

void redis_one(const Settings& settings) {
    Recorded it(settings);
    const auto compare = [&](const char* name, milliseconds think) {
        alternate(
            name, "us", settings.rounds,
            [&] { return pair_p50_us(settings.slice, confirmed_pair(it.client, key_of(0)), think); },
            [&] {
                return pair_p50_us(settings.slice, raw_pair(settings.port, it.script, it.shapes, 0), think);
            });
    };
    compare("redis-one", milliseconds(0));
    compare("redis-one-1ms", milliseconds(1));
    compare("redis-one-20ms", milliseconds(20));
}

namespace {

/// How late the end of a lease is told that nobody renews: the engine's timer at work.
class Endings {
public:
    explicit Endings(const dlock::Client& client) : client_(client) {}

    void begin(int i) {
        const auto options = dlock::AcquireOptions{
            .lease = milliseconds(150), .wait = milliseconds(1000), .renewing = dlock::Renewing::manual};
        auto& slot = slots_.emplace_back();
        slot.lease.emplace(
            client_.mutex(dlock::Key{"bench-end/" + std::to_string(i)}).try_acquire(options).value());
        slot.on_lost.emplace(slot.lease->lost(), [this, end = slot.lease->usable_until()] {
            const double late = micros(dlock::BootClock::now() - end) / 1000;
            const std::lock_guard lock(mutex_);
            late_.push_back(late);
        });
    }
    void wait_for(std::size_t count) {
        for (;;) {
            {
                const std::lock_guard lock(mutex_);
                if (late_.size() >= count) return;
            }
            std::this_thread::sleep_for(milliseconds(1));
        }
    }
    [[nodiscard]] Samples late() const { return late_; }

private:
    struct Slot {
        std::optional<dlock::Lease> lease;
        std::optional<std::stop_callback<std::function<void()>>> on_lost;
    };
    const dlock::Client& client_;
    std::deque<Slot> slots_;
    std::mutex mutex_;
    Samples late_;
};

}  // namespace

/// 64 threads that come, do ten pairs and go, while 20 leases a time come to their end; then the client idle.
void redis_timer(const Settings& settings) {
    Recorded it(settings);
    Samples slips;
    Samples idle;
    for (int round = 0; round < settings.rounds; ++round) {
        Endings endings(it.client);
        {
            std::vector<std::jthread> comers;
            for (int i = 0; i < callers; ++i)
                comers.emplace_back([&, i](const std::stop_token& stop) {
                    while (!stop.stop_requested())
                        std::jthread([&] {
                            for (int n = 0; n < 10; ++n) confirmed_pair(it.client, key_of(i))();
                        }).join();
                });
            std::size_t ended = 0;
            for (const auto end = Clock::now() + settings.slice; Clock::now() < end;) {
                for (int i = 0; i < 20; ++i) endings.begin(i);
                endings.wait_for(ended += 20);
            }
        }
        slips.push_back(percentile(endings.late(), 0.99));
        const auto before = cpu_time(getpid());
        std::this_thread::sleep_for(settings.slice);
        idle.push_back(100 * seconds(cpu_time(getpid()) - before) / seconds(settings.slice));
    }
    report("redis-timer-slip", "ms", slips);
    report("redis-idle", "% of a core", idle);
}

namespace {

constexpr int set_size = 10;

/// p50 of `take`, which leaves something behind for `give_back`, which is not timed.
template <class Take, class GiveBack>
double taking_p50_us(milliseconds slice, Take take, GiveBack give_back) {
    Samples samples;
    const auto end = Clock::now() + slice;
    for (int warm = 0; Clock::now() < end; ++warm) {
        const auto before = Clock::now();
        auto taken = take();
        const auto after = Clock::now();
        if (warm >= 20) samples.push_back(micros(after - before));
        give_back(std::move(taken));
    }
    return median(std::move(samples));
}

/// One round trip for all of them.
bool raw_round_trip(Wire& wire, const std::vector<Words>& commands, const std::string& wanted) {
    for (const Words& command : commands) wire.append(command);
    wire.flush();
    for (std::size_t i = 0; i < commands.size(); ++i) {
        Reply reply = wire.read_buffered();
        if (!reply) reply = wire.read();
        expect(*reply, wanted);
    }
    return true;
}

}  // namespace

void redis_all_10(const Settings& settings) {
    Recorded it(settings);
    std::vector<dlock::Key> keys;
    std::vector<Words> acquires;
    std::vector<Words> releases;
    for (int i = 0; i < set_size; ++i) {
        keys.emplace_back(key_of(i));
        acquires.push_back(it.script.acquire(key_of(i), 7));
        releases.push_back(it.script.release(key_of(i), 7));
    }
    alternate(
        "redis-all-10", "us", settings.rounds,
        [&] {
            return taking_p50_us(
                settings.slice, [&] { return it.client.acquire_all(keys).value(); },
                [](std::vector<dlock::Lease> leases) {
                    for (dlock::Lease& lease : leases) lease.release().value();
                });
        },
        [&] {
            return taking_p50_us(
                settings.slice, [&] { return raw_round_trip(it.wire, acquires, it.shapes.granted); },
                [&](bool) { raw_round_trip(it.wire, releases, it.shapes.released); });
        });
}

}  // namespace bench
