// SPDX-License-Identifier: Apache-2.0
// The embedded store: one process, 16 processes and 64 threads on keys of their own, hand-over, idle waiters.
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "dlock/dlock.hpp"
#include "sqlite_bare.hpp"
#include "support.hpp"

namespace bench {

namespace {

constexpr int processes = 16;
constexpr int threads = 64;
constexpr int turns = 45;

std::string key_of(int process) { return PairStatements::key(process); }
std::string our_url(const Settings& settings) { return "sqlite:" + settings.dir + "/ours.db"; }

dlock::Client open_ours(const Settings& settings) { return dlock::Client::open(our_url(settings)).value(); }

/// The recorded statements and a copy of our database for the bare statements, with all keys known in both.
struct Recorded {
    std::string raw_file;
    PairStatements statements;

    explicit Recorded(const Settings& settings, int keys = processes) : raw_file(settings.dir + "/raw.db") {
        {
            auto client = open_ours(settings);
            for (int i = 0; i < keys; ++i)
                client.mutex(dlock::Key{key_of(i)}).try_acquire().value().release().value();
        }
        statements = PairStatements::record(our_url(settings));
        copy_database(settings.dir + "/ours.db", raw_file);
    }
};

double pairs_per_second(milliseconds slice, const std::function<void()>& pair) {
    for (int i = 0; i < 20; ++i) pair();
    const auto begin = Clock::now();
    double pairs = 0;
    for (; Clock::now() - begin < slice; ++pairs) pair();
    return pairs / seconds(Clock::now() - begin);
}

/// All processes do pairs for a slice; only the acquires are timed one by one.
struct Crowd {
    double pairs_per_second = 0;
    double p999_ms = 0;
    double max_ms = 0;
    double unconfirmed = 0;  ///< releases without an answer in the call time-out
};
Crowd crowd(milliseconds slice, const std::function<Sides(int)>& open) {
    struct Board {
        StartLine line;
        std::array<Histogram, processes> acquires{};
        std::atomic<int> unconfirmed{0};
    };
    Shared<Board> board;
    Children children;
    for (int i = 0; i < processes; ++i) {
        children.start([&, i] {
            const Sides sides = open(i);
            sides.acquire();
            sides.release();
            board->line.wait_here();
            auto& mine = board->acquires[static_cast<std::size_t>(i)];
            for (const auto end = Clock::now() + slice; Clock::now() < end;) {
                const auto begin = Clock::now();
                sides.acquire();
                mine.add(Clock::now() - begin);
                try {
                    sides.release();
                } catch (const dlock::LockError& error) {
                    if (error.code() != dlock::errc::unknown_outcome) throw;
                    ++board->unconfirmed;
                }
            }
        });
    }
    board->line.release(processes);
    const auto begin = Clock::now();
    children.join();
    const double time = seconds(Clock::now() - begin);
    Histogram all;
    for (const auto& mine : board->acquires) all.merge(mine);
    return {static_cast<double>(all.count()) / time, all.percentile_us(0.999) / 1000, all.max_us() / 1000,
            static_cast<double>(board->unconfirmed.load())};
}

Sides flock_sides(const Settings& settings) {
    const int file = open((settings.dir + "/flock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) throw std::runtime_error("cannot open the file for flock");
    return {[file] { flock(file, LOCK_EX); }, [file] { flock(file, LOCK_UN); }};
}

}  // namespace

void sqlite_one(const Settings& settings) {
    const Recorded it(settings);
    auto client = open_ours(settings);
    auto mutex = client.mutex(dlock::Key{key_of(0)});
    BarePair bare(it.raw_file, it.statements, key_of(0));
    alternate(
        "sqlite-one", "pairs/s", settings.rounds,
        [&] {
            return pairs_per_second(settings.slice, [&] { mutex.try_acquire().value().release().value(); });
        },
        [&] {
            return pairs_per_second(settings.slice, [&] {
                bare.acquire();
                bare.release();
            });
        });
}

void sqlite_16(const Settings& settings) {
    const Recorded it(settings);
    Samples rate, raw_rate, p999, raw_p999, max, raw_max, unconfirmed;
    for (int round = 0; round < settings.rounds; ++round) {
        const auto ours =
            crowd(settings.slice, [&](int i) { return dlock_sides(our_url(settings), key_of(i)); });
        const auto raw = crowd(settings.slice, [&](int i) {
            auto bare = std::make_shared<BarePair>(it.raw_file, it.statements, key_of(i));
            return Sides{[bare] { bare->acquire(); }, [bare] { bare->release(); }};
        });
        rate.push_back(ours.pairs_per_second);
        raw_rate.push_back(raw.pairs_per_second);
        p999.push_back(ours.p999_ms);
        raw_p999.push_back(raw.p999_ms);
        max.push_back(ours.max_ms);
        raw_max.push_back(raw.max_ms);
        unconfirmed.push_back(ours.unconfirmed);
    }
    report("sqlite-16", "pairs/s", rate, raw_rate);
    report("sqlite-16-p999", "ms", p999, raw_p999);
    report("sqlite-16-max", "ms", max, raw_max);
    report("sqlite-16-unconfirmed", "releases", unconfirmed);
}

void sqlite_64(const Settings& settings) {
    const Recorded it(settings, threads);
    const auto client = open_ours(settings);
    const auto ours = [&](Pair (*make_pair)(const dlock::Client&, const std::string&)) {
        return [&, make_pair] {
            return threads_pairs_per_second(threads, settings.slice,
                                            [&](int i) { return make_pair(client, key_of(i)); });
        };
    };
    const auto raw = [&] {
        return threads_pairs_per_second(threads, settings.slice, [&](int i) -> Pair {
            return [bare = std::make_shared<BarePair>(it.raw_file, it.statements, key_of(i))] {
                bare->acquire();
                bare->release();
            };
        });
    };
    alternate("sqlite-64", "pairs/s", settings.rounds, ours(scope_pair), raw);
    alternate("sqlite-64-confirmed", "pairs/s", settings.rounds, ours(confirmed_pair), raw);
}

void sqlite_handover(const Settings& settings) {
    alternate(
        "sqlite-handover", "us", settings.rounds,
        [&] {
            return median(
                hand_over(turns, [&](int) { return dlock_sides(our_url(settings), "bench-handover"); }));
        },
        [&] { return median(hand_over(turns, [&](int) { return flock_sides(settings); })); });
}

void sqlite_idle(const Settings& settings) {
    constexpr int waiters = 20;
    struct Board {
        std::atomic<bool> held{false};
        std::atomic<int> waiting{0};
    };
    Shared<Board> board;
    Children holder;
    holder.start([&] {
        const Sides sides = dlock_sides(our_url(settings), "bench-idle");
        sides.acquire();
        board->held = true;
        pause();
    });
    while (!board->held) std::this_thread::sleep_for(milliseconds(5));
    Children children;
    for (int i = 0; i < waiters; ++i) {
        children.start([&] {
            const Sides sides = dlock_sides(our_url(settings), "bench-idle");
            ++board->waiting;
            sides.acquire();
        });
    }
    while (board->waiting < waiters) std::this_thread::sleep_for(milliseconds(5));
    std::this_thread::sleep_for(std::chrono::seconds(3));
    const auto used = [&] {
        nanoseconds sum{0};
        for (const auto pid : children.pids()) sum += cpu_time(pid);
        return sum;
    };
    Samples share;
    for (int round = 0; round < settings.rounds; ++round) {
        const auto before = used();
        const auto begin = Clock::now();
        std::this_thread::sleep_for(settings.slice);
        share.push_back(100.0 * seconds(used() - before) / seconds(Clock::now() - begin));
    }
    report("sqlite-idle", "% of a core", share);
}

}  // namespace bench
