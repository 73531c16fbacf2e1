// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

#include <boost/json/object.hpp>

#include "cli/events.hpp"
#include "cli/output.hpp"
#include "cli/syntax.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/throwaway.hpp"
#include "cli/units.hpp"
#include "cli/verbs.hpp"

namespace dlock::cli {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int most_callers = 1000;
constexpr std::size_t most_samples = 200'000;  ///< a caller; later ones are counted only

/// What one part of the benchmark came to.
struct Measured {
    std::string what;
    std::size_t callers = 1;
    std::uint64_t count = 0;
    Millis took{};
    std::vector<Millis> times;
    std::optional<Error> error;  ///< of the first caller that failed

    [[nodiscard]] double per_second() const {
        return took.count() > 0 ? 1000 * double(count) / took.count() : 0;
    }
    /// Of the sorted times.
    [[nodiscard]] Millis percentile(std::size_t hundredths) const {
        return times.empty() ? Millis{} : times[std::min(times.size() - 1, times.size() * hundredths / 100)];
    }
};

struct Plan {
    std::size_t callers = 16;
    milliseconds part = 2s;
    std::string prefix;
};

/// Ends the parts: by time, or by a signal.
class Stop {
public:
    [[nodiscard]] bool asked() const noexcept { return asked_.load(std::memory_order_relaxed); }
    void ask() noexcept { asked_.store(true, std::memory_order_relaxed); }

private:
    std::atomic<bool> asked_{false};
};

AcquireOptions options() {
    AcquireOptions made;
    made.lease = 10s;
    made.wait = 10s;
    return made;
}

/// Acquire and release of one key, again and again until the end.
void lock_again_and_again(const Client& client, const Key& key, TimePoint end, const Stop& stop,
                          Measured& mine) {
    Mutex mutex = client.mutex(key);
    while (!stop.asked()) {
        const TimePoint began = BootClock::now();
        if (began >= end) return;
        Result<Lease> lease = mutex.try_acquire(options());
        const Result<void> released = lease ? lease->release() : Result<void>(lease.error());
        if (!released) {
            mine.error = released.error();
            return;
        }
        if (mine.times.size() < most_samples) mine.times.emplace_back(BootClock::now() - began);
        ++mine.count;
    }
}

/// So many callers, each with a key of its own.
Measured pairs(const Client& client, const Plan& plan, std::size_t callers, const Stop& stop) {
    std::vector<Measured> each(callers);
    std::vector<std::thread> threads;
    const TimePoint began = BootClock::now();
    for (std::size_t i = 0; i < callers; ++i)
        threads.emplace_back([&, i] {
            lock_again_and_again(client, Key(plan.prefix + std::to_string(i)), began + plan.part, stop,
                                 each[i]);
        });
    for (std::thread& thread : threads) thread.join();
    Measured all;
    all.what = "acquire + release";
    all.callers = callers;
    all.took = BootClock::now() - began;
    for (Measured& one : each) {
        all.count += one.count;
        all.times.insert(all.times.end(), one.times.begin(), one.times.end());
        if (one.error && !all.error) all.error = std::move(one.error);
    }
    return all;
}

/// Two clients pass one key to and fro: from the release by one to the grant of the other, who waits.
class HandOver {
public:
    HandOver(const Client& first, const Client& second, Key key)
        : clients_{first, second}, key_(std::move(key)) {}

    Measured run(milliseconds part, const Stop& stop) {
        const TimePoint began = BootClock::now();
        const TimePoint end = began + part;
        result_.what = "hand-over";
        result_.callers = 2;
        Result<Lease> held = clients_[0].mutex(key_).try_acquire(options());
        for (std::size_t turn = 1; held && !stop.asked() && BootClock::now() < end; ++turn)
            held = pass(*held, clients_[turn % 2]);
        if (held) (void)held->release();
        if (!held) result_.error = held.error();
        result_.took = BootClock::now() - began;
        return std::move(result_);
    }

private:
    /// The next one asks first; once it stands in line, or has had the time to, the lock is released.
    Result<Lease> pass(Lease& held, const Client& next) {
        std::optional<Result<Lease>> got;
        TimePoint had;
        std::thread waiter([&] {
            got.emplace(Mutex(next.mutex(key_)).try_acquire(options()));
            had = BootClock::now();
        });
        wait_for_line();
        const TimePoint released = BootClock::now();
        const Result<void> ended = held.release();
        waiter.join();
        if (!ended) return ended.error();
        if (*got) {
            result_.times.emplace_back(had - released);
            ++result_.count;
        }
        return *std::move(got);
    }

    void wait_for_line() {
        const TimePoint patience = BootClock::now() + 200ms;
        while (BootClock::now() < patience) {
            const Result<LockInfo> lock = clients_[0].show(key_);
            if (!lock || lock->waiter_count > 0) return;
            std::this_thread::sleep_for(1ms);
        }
    }

    const Client clients_[2];
    const Key key_;
    Measured result_;
};

void forget_all(const Client& client, const Plan& plan) {
    std::string problem;
    for (std::size_t i = 0; i < plan.callers; ++i)
        if (auto done = client.forget(Key(plan.prefix + std::to_string(i))); !done)
            problem = done.error().message();
    if (auto done = client.forget(Key(plan.prefix + "hand-over")); !done) problem = done.error().message();
    if (!problem.empty())
        say("free keys that begin with " + printable(Key(plan.prefix).text()) +
            " stay for an hour: " + printable(problem));
}

/// The parts one after the other, on a thread of its own; what is finished is told at once.
class Bench {
public:
    Bench(const Client& client, const Client& second, const Plan& plan, const Events& events)
        : client_(client), second_(second), plan_(plan), events_(events), thread_([this] { work(); }) {}
    ~Bench() {
        stop_.ask();
        thread_.join();
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;

    void stop() noexcept { stop_.ask(); }
    std::vector<Measured> take() {
        const std::lock_guard guard(mutex_);
        return std::exchange(measured_, {});
    }
    [[nodiscard]] bool finished() const noexcept { return finished_.load(); }

private:
    void work() {
        if (put(pairs(client_, plan_, 1, stop_)) && plan_.callers > 1)
            if (!put(pairs(client_, plan_, plan_.callers, stop_))) stop_.ask();
        if (!stop_.asked())
            put(HandOver(client_, second_, Key(plan_.prefix + "hand-over")).run(plan_.part, stop_));
        forget_all(client_, plan_);
        finished_.store(true);
        events_.notify();
    }

    /// False when it failed, and the rest is of no use.
    bool put(Measured part) {
        std::sort(part.times.begin(), part.times.end());
        const bool good = !part.error && !stop_.asked();
        const std::lock_guard guard(mutex_);
        measured_.push_back(std::move(part));
        events_.notify();
        return good;
    }

    const Client& client_;
    const Client& second_;
    const Plan& plan_;
    const Events& events_;
    Stop stop_;
    std::mutex mutex_;
    std::vector<Measured> measured_;
    std::atomic<bool> finished_{false};
    std::thread thread_;  ///< last: uses all above
};

json::object json_of(const Measured& part) {
    json::object object;
    object["what"] = part.what;
    object["callers"] = part.callers;
    object["count"] = part.count;
    object["perSecond"] = part.per_second();
    object["p50Ms"] = part.times.empty() ? json::value(nullptr) : json::value(part.percentile(50).count());
    object["p99Ms"] = part.times.empty() ? json::value(nullptr) : json::value(part.percentile(99).count());
    object["tookMs"] = part.took.count();
    return object;
}

Row row_of(const Measured& part) {
    const bool none = part.times.empty();
    return {part.what,
            std::to_string(part.callers),
            std::to_string(part.count),
            std::to_string(static_cast<long>(part.per_second())),
            none ? "-" : human(part.percentile(50)),
            none ? "-" : human(part.percentile(99))};
}

/// Takes what the parts come to until they are over. The first error of a part ends in a Failure, behind the
/// rest.
int report(Bench& bench, Events& events, const Common& common) {
    std::vector<Row> rows{{"WHAT", "CALLERS", "COUNT", "A SECOND", "P50", "P99"}};
    std::optional<Error> error;
    int code = exit_code::ok;
    while (!bench.finished()) {
        const Events::Event event = events.next();
        if (event.kind == Events::Kind::signal && event.signal == SIGTSTP) stop_own_group(SIGTSTP);
        if (event.kind == Events::Kind::signal &&
            (event.signal == SIGINT || event.signal == SIGTERM || event.signal == SIGHUP)) {
            code = event.signal == SIGINT ? exit_code::ok : exit_code::signal_base + event.signal;
            bench.stop();
        }
    }
    for (const Measured& part : bench.take()) {
        if (part.error && !error) error = part.error;
        if (part.count == 0) continue;
        if (common.json) print(json_of(part));
        rows.push_back(row_of(part));
    }
    if (!common.json && rows.size() > 1) print(table(rows));
    if (error) throw Failure(*error);
    return code;
}

int perform(const Verb& verb, Call& call) {
    std::optional<std::string> callers;
    std::optional<std::string> seconds;
    std::optional<std::string> prefix;
    Common common;
    Syntax syntax(verb);
    syntax.option("--callers", "NUMBER", callers, "Concurrent callers of the second part; default 16");
    syntax.option("--seconds", "SECONDS", seconds, "How long each of the three parts takes; default 2");
    syntax.option("--prefix", "PREFIX", prefix, "What its keys begin with; default dlock-trial/");
    syntax.common(common);
    if (const auto done = syntax.parse(call)) return *done;
    Plan plan;
    if (callers)
        plan.callers = static_cast<std::size_t>(parse_number("--callers", *callers, 1, most_callers));
    if (seconds) plan.part = parse_seconds("--seconds", *seconds);
    if (plan.part == 0ms || plan.part > 1h)
        throw Failure(errc::invalid_argument, "--seconds: more than 0 and at most 3600");
    plan.prefix = throwaway_name(prefix ? value_or_fail(Key::parse(*prefix)).bytes() : throwaway_prefix);
    value_or_fail(Key(plan.prefix + "hand-over").check());
    Events events;
    const Client client = open_client(common, "dlock");
    common.local = true;  // said once
    const Client second = open_client(common, "dlock");
    Bench bench(client, second, plan, events);
    return report(bench, events, common);
}

}  // namespace

const Verb bench_verb = {
    "bench", "bench [OPTIONS]",
    "Measure locking on your store: pairs of acquire and release by one caller and by several, and how\n"
    "long a lock takes from one client to the next. Throw-away keys, which it removes; Ctrl-C ends it early.",
    "  dlock bench\n"
    "  dlock bench --callers 64 --seconds 10 --store redis://10.0.0.5\n"
    "  dlock bench --json > before.jsonl\n",
    perform};

}  // namespace dlock::cli
