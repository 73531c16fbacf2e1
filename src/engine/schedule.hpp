// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "dlock/time.hpp"

namespace dlock::engine {

class Engine;
class Effects;

/// Something with a next moment to look at it. Attempts, leases, lines and withdrawals all are; one Schedule
/// has them all, and one timer of the loop serves the Schedule.
class Timed : public std::enable_shared_from_this<Timed> {
public:
    Timed() = default;
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;
    virtual ~Timed() = default;

    /// Under the engine's lock, taken out of the schedule before.
    virtual void on_time(Engine& engine, TimePoint now, Effects& effects) = 0;
    /// Whether to come along at `now` although due a little later, to share a call.
    [[nodiscard]] virtual bool may_come_early(TimePoint) const { return false; }

private:
    friend class Schedule;
    TimePoint due_ = TimePoint::max();
    std::uint64_t number_ = 0;
};

/// Ordered by time, at one time by age. Not thread-safe: under the engine's lock.
class Schedule {
public:
    /// TimePoint::max() takes it out.
    void set(Timed& item, TimePoint due) {
        if (due == item.due_) return;
        if (item.number_ == 0) item.number_ = ++last_number_;
        if (item.due_ == TimePoint::max()) {
            items_.emplace(due, &item);
        } else if (due == TimePoint::max()) {
            items_.erase({item.due_, &item});
        } else {
            auto node = items_.extract({item.due_, &item});
            node.value().first = due;
            items_.insert(std::move(node));
        }
        item.due_ = due;
    }
    void remove(Timed& item) { set(item, TimePoint::max()); }

    [[nodiscard]] TimePoint earliest() const noexcept {
        return items_.empty() ? TimePoint::max() : items_.begin()->first;
    }
    [[nodiscard]] Timed* first() const noexcept { return items_.empty() ? nullptr : items_.begin()->second; }

    /// Calls `visit(item)` for each item due up to `until`, in order; `visit` must not change the schedule.
    template <class Visit>
    void up_to(TimePoint until, Visit visit) const {
        for (const auto& [due, item] : items_) {
            if (due > until) break;
            visit(*item);
        }
    }
    template <class Visit>
    void all(Visit visit) const {
        up_to(TimePoint::max(), visit);
    }

private:
    using Entry = std::pair<TimePoint, Timed*>;
    struct Earlier {
        bool operator()(const Entry& a, const Entry& b) const noexcept {
            return a.first != b.first ? a.first < b.first : a.second->number_ < b.second->number_;
        }
    };

    std::set<Entry, Earlier> items_;
    std::uint64_t last_number_ = 0;
};

}  // namespace dlock::engine
