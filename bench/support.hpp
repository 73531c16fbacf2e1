// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <sys/types.h>

namespace dlock {
class Client;
}

/// What every benchmark needs: time, figures, children, shared memory.
/// A bar prints its samples, one a round; `bench/run` takes the medians and judges them.
namespace bench {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// How long and where one bar runs.
struct Settings {
    int rounds = 5;
    milliseconds slice{1000};  ///< of one figure
    std::uint16_t port = 0;    ///< of the Redis server
    std::string dir;           ///< an empty folder
    std::string dlock;         ///< the command's path

    [[nodiscard]] std::string redis_url() const { return "redis://127.0.0.1:" + std::to_string(port); }
};

using Samples = std::vector<double>;

/// Prints one line of JSON: the samples of ours and of the bare store, round by round (raw may be empty).
void report(std::string_view name, std::string_view unit, const Samples& ours, const Samples& raw = {});

/// Takes ours and raw in turn, `rounds` times, and reports them: the machine's speed drifts, so only figures
/// taken side by side compare.
using Figure = std::function<double()>;
void alternate(std::string_view name, std::string_view unit, int rounds, const Figure& ours,
               const Figure& raw);

/// The value that a share of the samples does not exceed.
double percentile(Samples samples, double share);
inline double median(Samples samples) { return percentile(std::move(samples), 0.5); }

inline double seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }
inline double micros(nanoseconds time) { return std::chrono::duration<double, std::micro>(time).count(); }

/// CPU time of a process so far, exact where /proc/PID/stat counts ticks of 10 ms.
nanoseconds cpu_time(pid_t pid);
/// Resident memory of this process in bytes.
std::size_t resident_bytes();

/// Latencies in buckets of 4 %, 0 allocations; lives in shared memory too.
class Histogram {
public:
    void add(nanoseconds time) noexcept;
    void merge(const Histogram& other) noexcept;
    [[nodiscard]] double percentile_us(double share) const noexcept;
    [[nodiscard]] double max_us() const noexcept { return static_cast<double>(max_) / 1000.0; }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

private:
    static constexpr std::size_t buckets = 1024;
    std::array<std::uint64_t, buckets> counts_{};
    std::uint64_t count_ = 0;
    std::int64_t max_ = 0;
};

/// A value that children see too. T must be fit for it: no pointers of its own.
template <class T>
class Shared {
public:
    Shared() {
        void* place = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (place == MAP_FAILED) throw std::bad_alloc();
        value_ = new (place) T();
    }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    ~Shared() { munmap(value_, sizeof(T)); }
    T& operator*() noexcept { return *value_; }
    T* operator->() noexcept { return value_; }

private:
    T* value_;
};

/// Processes that run one function each. They die with this one; what is left is ended by the destructor.
class Children {
public:
    Children() = default;
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;
    ~Children();
    pid_t start(const std::function<void()>& body);
    /// Waits for all; throws when one failed.
    void join();
    [[nodiscard]] const std::vector<pid_t>& pids() const noexcept { return pids_; }

private:
    std::vector<pid_t> pids_;
};

/// A start line for children: all begin at once.
struct StartLine {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    void wait_here();            ///< a child
    void release(int children);  ///< the parent, once all are here
};

/// Two processes hand a lock to each other, as real ones would: the holder works 5 to 10 ms while the other
/// waits, stamps the time and releases; the other stamps when its acquire returns. Roles swap each time.
/// `open` runs in each child and gives its two calls. Returns the hand-over times in us.
struct Sides {
    std::function<void()> acquire;
    std::function<void()> release;
};
/// Two calls of dlock through a client of their own.
Sides dlock_sides(const std::string& url, const std::string& key);
Samples hand_over(int turns, const std::function<Sides(int me)>& open);

/// Threads that do one pair after the other; `make_pair(i)` runs in thread i and gives its pair.
using Pair = std::function<void()>;
double threads_pairs_per_second(int threads, milliseconds slice, const std::function<Pair(int)>& make_pair);
/// A pair that waits for the release, too.
Pair confirmed_pair(const dlock::Client& client, const std::string& key);
/// The way of the README: the scope ends, the release is on its way. The next acquire of the same key is sent
/// when it is confirmed, so each pair counted is a whole one.
Pair scope_pair(const dlock::Client& client, const std::string& key);

/// Every bar's program: bench/run calls it by name.
using Bar = void (*)(const Settings&);
void redis_async_64(const Settings&);
void redis_threads_64(const Settings&);
void redis_one(const Settings&);
void redis_threads_2(const Settings&);
void redis_timer(const Settings&);
void redis_all_10(const Settings&);
void redis_handover(const Settings&);
void redis_100k(const Settings&);
void waiters_1000(const Settings&);
void sqlite_one(const Settings&);
void sqlite_16(const Settings&);
void sqlite_64(const Settings&);
void sqlite_handover(const Settings&);
void sqlite_idle(const Settings&);
void memory_one(const Settings&);
void memory_modes(const Settings&);
void sqlite_modes(const Settings&);
void redis_modes(const Settings&);
void redis_readers_64(const Settings&);
void redis_permits_1000(const Settings&);
void one_shot_keys(const Settings&);
void cli_run(const Settings&);

}  // namespace bench
