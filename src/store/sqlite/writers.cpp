// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/writers.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <sched.h>

namespace dlock::store::sqlite {
namespace {

constexpr std::size_t most_together = 100;
constexpr int crowd_lasts = 16;  // turns after one that was shared
// What running one of our own threads until it stands in the queue may take, and how much longer than a
// yield that took more the next one is put off.
constexpr std::chrono::microseconds gathering_one{30};
constexpr int put_off = 20;

}  // namespace

/// The right to write, given on at its end, whatever happens.
class Writers::Role {
public:
    explicit Role(Writers& writers) noexcept : writers_(writers) {}
    ~Role() {
        {
            const std::lock_guard lock(writers_.mutex_);
            writers_.writing_ = false;
        }
        writers_.call_next();
    }
    Role(const Role&) = delete;
    Role& operator=(const Role&) = delete;

private:
    Writers& writers_;
};

void Writers::add(std::unique_ptr<Write> write) {
    const bool may_block = !shared_.loop.here();
    {
        const std::lock_guard lock(mutex_);
        if (writing_ && may_block) {
            auto caller = BlockedCaller::current();
            if (caller != nullptr && caller->attach(shared_from_this())) write->caller = std::move(caller);
        }
        queue_.push_back(std::move(write));
        if (writing_) return;
    }
    if (may_block)
        take_turn();
    else
        worker_.add(Worker::Urgency::usual, [this] { take_turn(); });
}

void Writers::read_for(const BlockedCaller& caller) {
    if (caller.over())
        call_next();
    else
        take_turn();
}

void Writers::take_turn() {
    {
        const std::lock_guard lock(mutex_);
        if (writing_ || queue_.empty()) return;
        writing_ = true;
    }
    Batch batch;
    {
        const Role role(*this);
        gather();
        batch = take();
        write(batch);
        wrote_(connection_.wal_frames());
    }
    answer(batch);
}

std::size_t Writers::waiting() {
    const std::lock_guard lock(mutex_);
    return queue_.size();
}

/// In a crowd, most callers are on their way here and only lack a processor: whoever writes lets them come
/// first, or each would write alone. Not where a yield gives the processor to another program instead.
void Writers::gather() {
    if (crowd_ == 0) return;
    const TimePoint begin = shared_.loop.now();
    if (begin < next_gathering_) return;
    const std::size_t first = waiting();
    std::size_t seen = 0;
    for (std::size_t now = first; now > seen && now < most_together; now = waiting()) {
        seen = now;
        sched_yield();
        const auto took = shared_.loop.now() - begin;
        if (took <= gathering_one * (waiting() - first + 1)) continue;
        next_gathering_ = begin + put_off * took;
        return;
    }
}

auto Writers::take() -> Batch {
    Batch batch;
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), most_together));
    batch.assign(std::move_iterator(queue_.begin()), std::move_iterator(queue_.begin() + count));
    queue_.erase(queue_.begin(), queue_.begin() + count);
    crowd_ = batch.size() > 1 ? crowd_lasts : std::max(crowd_ - 1, 0);
    return batch;
}

void Writers::write(Batch& batch) {
    if (batch.size() > 1) {
        const auto error = together(batch);
        if (!error) return;
        const TimePoint now = shared_.loop.now();
        if (std::any_of(batch.begin(), batch.end(), [now](const auto& w) { return w->deadline <= now; }))
            return put_back(batch, *error);
    }
    // What fails together is done one by one, so that nobody is harmed by another's trouble.
    for (const auto& write : batch) alone(*write);
}

std::optional<Error> Writers::together(const Batch& batch) {
    const auto earlier = [](const auto& a, const auto& b) { return a->deadline < b->deadline; };
    const TimePoint deadline = (*std::min_element(batch.begin(), batch.end(), earlier))->deadline;
    const auto committed = connection_.write(deadline, [&batch](db::Sqlite& db) {
        db::Transaction transaction(db);
        for (const auto& write : batch) write->perform(db);
        transaction.commit();
        return true;
    });
    if (committed) return std::nullopt;
    return committed.error();
}

void Writers::alone(Write& write) {
    const auto done = connection_.write(write.deadline, [&write](db::Sqlite& db) {
        write.perform(db);
        return true;
    });
    if (!done) write.failure = done.error();
}

/// The error is for those whose time is over; the others stand first again.
void Writers::put_back(Batch& batch, const Error& error) {
    const TimePoint now = shared_.loop.now();
    const auto others = std::stable_partition(batch.begin(), batch.end(),
                                              [now](const auto& write) { return write->deadline <= now; });
    {
        const std::lock_guard lock(mutex_);
        queue_.insert(queue_.begin(), std::move_iterator(others), std::move_iterator(batch.end()));
    }
    batch.erase(others, batch.end());
    for (const auto& write : batch) write->failure = error;
}

/// Somebody who waits in the queue writes next, or who comes before that wakes; with nobody to wake, the
/// worker.
void Writers::call_next() {
    std::shared_ptr<BlockedCaller> next;
    {
        const std::lock_guard lock(mutex_);
        if (writing_ || queue_.empty()) return;
        const auto first = std::find_if(queue_.begin(), queue_.end(),
                                        [](const auto& write) { return write->caller != nullptr; });
        if (first != queue_.end()) next = (*first)->caller;
    }
    if (next != nullptr && next->offer()) return;
    worker_.add(Worker::Urgency::usual, [this] { take_turn(); });
}

/// What completions ask for, this thread does not wait for.
void Writers::answer(const Batch& batch) {
    const BlockedCaller::Scope nobody(nullptr);
    for (const auto& write : batch) write->answer(std::move(write->failure));
}

}  // namespace dlock::store::sqlite
