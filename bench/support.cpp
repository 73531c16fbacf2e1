// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlock/dlock.hpp"

namespace bench {

namespace {

void print_list(std::string_view name, const Samples& samples) {
    std::printf(", \"%.*s\": [", static_cast<int>(name.size()), name.data());
    const char* comma = "";
    for (double sample : samples) {
        std::printf("%s%.6g", comma, sample);
        comma = ", ";
    }
    std::printf("]");
}

}  // namespace

void report(std::string_view name, std::string_view unit, const Samples& ours, const Samples& raw) {
    std::printf(R"({"name": "%.*s", "unit": "%.*s")", static_cast<int>(name.size()), name.data(),
                static_cast<int>(unit.size()), unit.data());
    print_list("ours", ours);
    print_list("raw", raw);
    std::printf("}\n");
    std::fflush(stdout);
}

void alternate(std::string_view name, std::string_view unit, int rounds, const Figure& ours,
               const Figure& raw) {
    Samples our_samples;
    Samples raw_samples;
    for (int round = 0; round < rounds; ++round) {
        our_samples.push_back(ours());
        raw_samples.push_back(raw());
    }
    report(name, unit, our_samples, raw_samples);
}

double percentile(Samples samples, double share) {
    if (samples.empty()) throw std::runtime_error("no samples");
    std::sort(samples.begin(), samples.end());
    const auto last = static_cast<double>(samples.size() - 1);
    return samples[static_cast<std::size_t>(std::lround(last * share))];
}

nanoseconds cpu_time(pid_t pid) {
    clockid_t clock{};
    timespec time{};
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
        throw std::runtime_error("no CPU clock of process " + std::to_string(pid));
    return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

std::size_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::size_t size = 0;
    std::size_t resident = 0;
    if (!(file >> size >> resident)) throw std::runtime_error("cannot read /proc/self/statm");
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

void Histogram::add(nanoseconds time) noexcept {
    const auto ns = std::max<std::int64_t>(time.count(), 1);
    const double place = std::log2(static_cast<double>(ns)) * 17.0;  // 2^(1/17) = 1.042
    ++counts_[std::min(static_cast<std::size_t>(place), buckets - 1)];
    ++count_;
    max_ = std::max(max_, ns);
}

void Histogram::merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < buckets; ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
}

double Histogram::percentile_us(double share) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(count_) * share));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
        seen += counts_[i];
        if (seen >= wanted) return std::min(std::exp2(static_cast<double>(i + 1) / 17.0) / 1000.0, max_us());
    }
    return max_us();
}

Children::~Children() {
    for (pid_t pid : pids_) kill(pid, SIGKILL);
    for (pid_t pid : pids_) waitpid(pid, nullptr, 0);
}

pid_t Children::start(const std::function<void()>& body) {
    std::fflush(stdout);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fork failed");
    if (pid > 0) {
        pids_.push_back(pid);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    try {
        body();
        _exit(0);
    } catch (const std::exception& error) {
        std::cerr << "child: " << error.what() << std::endl;
        _exit(1);
    }
}

void Children::join() {
    while (!pids_.empty()) {
        int status = 0;
        const pid_t pid = waitpid(-1, &status, 0);
        std::erase(pids_, pid);
        if (status != 0) throw std::runtime_error("a child failed");
    }
}

void StartLine::wait_here() {
    ++ready;
    while (!go) std::this_thread::sleep_for(milliseconds(1));
}

void StartLine::release(int children) {
    const auto limit = Clock::now() + std::chrono::seconds(20);
    while (ready < children) {
        if (Clock::now() > limit) throw std::runtime_error("a child did not get ready");
        std::this_thread::sleep_for(milliseconds(1));
    }
    go = true;
}

namespace {

constexpr std::size_t most_turns = 1024;

struct Baton {
    std::array<std::atomic<bool>, 2> waiting{};
    std::atomic<bool> over{false};
    std::atomic<int> turn{0};
    std::atomic<int> last{-1};
    std::atomic<std::int64_t> released_at{0};
    std::atomic<std::size_t> count{0};
    std::array<double, most_turns> us{};
};

template <class Condition>
void until(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void take_turns(Baton& baton, int me, int turns, const Sides& sides) {
    std::minstd_rand random(static_cast<unsigned>(me) + 1);
    std::uniform_int_distribution<int> work_us(5000, 10000);
    const auto other = static_cast<std::size_t>(1 - me);
    while (true) {
        baton.waiting[static_cast<std::size_t>(me)] = true;
        sides.acquire();
        const auto got = Clock::now().time_since_epoch();
        baton.waiting[static_cast<std::size_t>(me)] = false;
        if (baton.last.exchange(me) == 1 - me && baton.count < most_turns)
            baton.us[baton.count++] = micros(got - nanoseconds(baton.released_at.load()));
        const int turn = ++baton.turn;
        if (turn > turns) {
            baton.over = true;
            sides.release();
            return;
        }
        until([&] { return baton.waiting[other] || baton.over; });
        std::this_thread::sleep_for(std::chrono::microseconds(work_us(random)));
        baton.released_at = Clock::now().time_since_epoch().count();
        sides.release();
        until([&] { return baton.turn != turn || baton.over; });  // so that nobody barges
        if (baton.over) return;
    }
}

}  // namespace

Sides dlock_sides(const std::string& url, const std::string& key) {
    struct Mine {
        dlock::Client client;
        dlock::Mutex mutex;
        std::optional<dlock::Lease> lease;
    };
    auto client = dlock::Client::open(url).value();
    auto mine = std::make_shared<Mine>(Mine{client, client.mutex(dlock::Key{key}), std::nullopt});
    return {[mine] { mine->lease = mine->mutex.acquire(); }, [mine] { mine->lease->release().value(); }};
}

Samples hand_over(int turns, const std::function<Sides(int me)>& open) {
    Shared<Baton> baton;
    {
        Children children;
        for (int me : {0, 1}) children.start([&, me] { take_turns(*baton, me, turns, open(me)); });
        children.join();
    }
    return {baton->us.begin(), baton->us.begin() + static_cast<std::ptrdiff_t>(baton->count.load())};
}

double threads_pairs_per_second(int count, milliseconds slice, const std::function<Pair(int)>& make_pair) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> pairs{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
            const Pair pair = make_pair(i);
            pair();
            ++ready;
            go.wait(false);
            std::uint64_t mine = 0;
            for (; !stop.load(std::memory_order_relaxed); ++mine) pair();
            pairs += mine;
        });
    }
    while (ready < count) std::this_thread::sleep_for(milliseconds(1));
    const auto begin = Clock::now();
    go = true;
    go.notify_all();
    std::this_thread::sleep_for(slice);
    stop = true;
    threads.clear();
    return static_cast<double>(pairs.load()) / seconds(Clock::now() - begin);
}

Pair confirmed_pair(const dlock::Client& client, const std::string& key) {
    return
        [mutex = client.mutex(dlock::Key{key})]() mutable { mutex.try_acquire().value().release().value(); };
}

Pair scope_pair(const dlock::Client& client, const std::string& key) {
    return [mutex = client.mutex(dlock::Key{key})]() mutable {
        const dlock::Lease lease = mutex.try_acquire().value();
    };
}

}  // namespace bench
