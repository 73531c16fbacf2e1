// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

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
    std::size_t place_ = 0;  ///< in the schedule's heap, while due_ is a time
};

/// Ordered by time, at one time by age. A heap whose items know their places: an acquire and a release put in
/// and take out three, without memory of their own. Not thread-safe: under the engine's lock.
class Schedule {
public:
    /// TimePoint::max() takes it out.
    void set(Timed& item, TimePoint due) {
        if (due == item.due_) return;
        if (item.number_ == 0) item.number_ = ++last_number_;
        const bool inside = item.due_ != TimePoint::max();
        item.due_ = due;
        if (due == TimePoint::max()) {
            take_out(item.place_);
        } else if (inside) {
            settle({due, &item}, item.place_);
        } else {
            heap_.emplace_back();
            settle({due, &item}, heap_.size() - 1);
        }
    }
    void remove(Timed& item) { set(item, TimePoint::max()); }

    [[nodiscard]] TimePoint earliest() const noexcept {
        return heap_.empty() ? TimePoint::max() : heap_.front().due;
    }
    [[nodiscard]] Timed* first() const noexcept { return heap_.empty() ? nullptr : heap_.front().item; }

    /// Calls `visit(item)` for each item due up to `until`, in no particular order; `visit` must not change
    /// the schedule.
    template <class Visit>
    void up_to(TimePoint until, Visit visit) const {
        up_to(until, visit, 0);
    }
    template <class Visit>
    void all(Visit visit) const {
        for (const Entry& entry : heap_) visit(*entry.item);
    }

private:
    struct Entry {
        TimePoint due;
        Timed* item = nullptr;

        [[nodiscard]] bool before(const Entry& other) const noexcept {
            return due != other.due ? due < other.due : item->number_ < other.item->number_;
        }
    };

    /// Puts the entry in the free place or where it belongs above or below it.
    void settle(Entry entry, std::size_t place) noexcept {
        for (std::size_t up = (place - 1) / 2; place > 0 && entry.before(heap_[up]); up = (place - 1) / 2)
            place = move(up, place);
        for (std::size_t down = 2 * place + 1; down < heap_.size(); down = 2 * place + 1) {
            if (down + 1 < heap_.size() && heap_[down + 1].before(heap_[down])) ++down;
            if (!heap_[down].before(entry)) break;
            place = move(down, place);
        }
        heap_[place] = entry;
        entry.item->place_ = place;
    }
    void take_out(std::size_t place) noexcept {
        const Entry last = heap_.back();
        heap_.pop_back();
        if (place < heap_.size()) settle(last, place);
    }
    std::size_t move(std::size_t from, std::size_t to) noexcept {
        heap_[to] = heap_[from];
        heap_[to].item->place_ = to;
        return from;
    }
    template <class Visit>
    void up_to(TimePoint until, Visit& visit, std::size_t place) const {
        if (place >= heap_.size() || heap_[place].due > until) return;
        visit(*heap_[place].item);
        up_to(until, visit, 2 * place + 1);
        up_to(until, visit, 2 * place + 2);
    }

    std::vector<Entry> heap_;
    std::uint64_t last_number_ = 0;
};

}  // namespace dlock::engine
