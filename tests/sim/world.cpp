// SPDX-License-Identifier: Apache-2.0
#include "sim/world.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace dlock::sim {
namespace {
constexpr std::uint64_t most_events = 200'000;
}  // namespace

void World::at(TimePoint when, Task task) {
    heap_.push_back({std::max(when, now_), ++last_number_, std::move(task)});
    std::push_heap(heap_.begin(), heap_.end(), Later{});
}

void World::run_until(TimePoint end) {
    while (!violation_ && !heap_.empty() && heap_.front().when <= end) {
        std::pop_heap(heap_.begin(), heap_.end(), Later{});
        Event event = std::move(heap_.back());
        heap_.pop_back();
        now_ = event.when;
        if (++events_ > most_events) violated("runaway", "a run does not come to its end");
        event.task();
        if (check_) check_();
    }
    now_ = std::max(now_, end);
}

void World::violated(std::string_view check, const std::string& what) {
    log("VIOLATED ", check, ": ", what);
    if (!violation_) violation_ = Violation{std::string(check), what};
}

void World::print(const std::string& line) const {
    const std::chrono::duration<double> since = now_ - TimePoint(std::chrono::hours(1));
    std::printf("%11.6f  %s\n", since.count(), line.c_str());
}

}  // namespace dlock::sim
