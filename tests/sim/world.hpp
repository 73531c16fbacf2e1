// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "dlock/time.hpp"
#include "sim/random.hpp"

namespace dlock::sim {

using Task = std::function<void()>;

/// Which check found what.
struct Violation {
    std::string check;
    std::string what;
};

/// Virtual time and the events in it. One thread; everything random comes from the seed.
class World {
public:
    enum class Trace { off, on };
    World(std::uint64_t seed, Trace trace) : random(seed), trace_(trace) {}
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    ~World() = default;

    Random random;

    [[nodiscard]] TimePoint now() const noexcept { return now_; }
    void at(TimePoint when, Task task);
    void after(nanoseconds delay, Task task) { at(now_ + delay, std::move(task)); }

    /// Run after every event.
    void watch_with(Task check) { check_ = std::move(check); }
    /// Runs what is due by `end`, or until something is violated.
    void run_until(TimePoint end);

    void violated(std::string_view check, const std::string& what);
    [[nodiscard]] const std::optional<Violation>& violation() const noexcept { return violation_; }
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }

    template <class... Parts>
    void log(const Parts&... parts) const {
        if (trace_ == Trace::off) return;
        std::ostringstream line;
        (line << ... << parts);
        print(line.str());
    }

private:
    struct Event {
        TimePoint when;
        std::uint64_t number;
        Task task;
    };
    struct Later {
        bool operator()(const Event& a, const Event& b) const noexcept {
            return a.when != b.when ? a.when > b.when : a.number > b.number;
        }
    };
    void print(const std::string& line) const;

    TimePoint now_{std::chrono::hours(1)};
    std::vector<Event> heap_;
    std::uint64_t last_number_ = 0;
    std::uint64_t events_ = 0;
    Task check_;
    std::optional<Violation> violation_;
    Trace trace_;
};

}  // namespace dlock::sim
