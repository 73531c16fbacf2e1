// SPDX-License-Identifier: Apache-2.0
#include "store/memory/memory_space.hpp"

#include <algorithm>
#include <utility>

namespace dlock::store {
namespace {

constexpr auto forget_after = std::chrono::hours(1);
constexpr std::uint64_t acquires_a_sweep = 64;
constexpr std::size_t buckets_a_sweep = 128;

void post(const MemorySpace::WaiterPtr& waiter, Change change) {
    waiter->loop.post([waiter, change] {
        if (waiter->wanted.load(std::memory_order_acquire)) waiter->changed(change);
    });
}

}  // namespace

std::shared_ptr<MemorySpace> MemorySpace::of_name(const std::string& name) {
    static std::mutex mutex;
    static std::unordered_map<std::string, std::weak_ptr<MemorySpace>> spaces;
    const std::lock_guard lock(mutex);
    if (const auto known = spaces.find(name); known != spaces.end())
        if (auto space = known->second.lock()) return space;
    std::erase_if(spaces, [](const auto& entry) { return entry.second.expired(); });
    auto space = std::make_shared<MemorySpace>();
    spaces.emplace(name, space);
    return space;
}

core::Record* MemorySpace::find(Shard& shard, const Key& key) {
    const auto found = shard.records.find(key);
    return found == shard.records.end() ? nullptr : &found->second;
}

std::optional<core::Record> MemorySpace::find(const Key& key) const {
    const Shard& its = shard(key);
    const std::lock_guard lock(its.mutex);
    const auto found = its.records.find(key);
    return found == its.records.end() ? std::nullopt : std::optional(found->second);
}

core::AcquireOutcome MemorySpace::acquire(const Key& key, core::AcquireAsk ask, core::StoreTime time,
                                          Seen& seen) {
    Shard& its = shard(key);
    core::AcquireOutcome outcome;
    bool sweep_due = false;
    {
        const std::lock_guard lock(its.mutex);
        core::Record& record = its.records[key];
        outcome = core::acquire(record, std::move(ask), time, floor_.load(std::memory_order_relaxed));
        if (outcome.what != core::Acquiring::granted) {
            if (const core::Holder* live = core::live_holder(record, time.now)) seen.holder = *live;
            if (outcome.what == core::Acquiring::done) seen.done = record.done;
            seen.kind = record.kind;
            seen.permits = record.permits;
        }
        wake(its, outcome.wake);
        sweep_due = ++its.acquires % acquires_a_sweep == 0;
    }
    if (sweep_due) sweep(time.now);
    return outcome;
}

bool MemorySpace::renew(const Key& key, const GrantId& id, milliseconds lease, TimePoint now) {
    Shard& its = shard(key);
    const std::lock_guard lock(its.mutex);
    core::Record* record = find(its, key);
    return record != nullptr && core::renew_lease(*record, id, lease, now);
}

core::TicketOutcome MemorySpace::renew(const Key& key, const TicketId& id, milliseconds lease,
                                       TimePoint now) {
    Shard& its = shard(key);
    const std::lock_guard lock(its.mutex);
    core::Record* record = find(its, key);
    return record != nullptr ? core::renew_ticket(*record, id, lease, now) : core::TicketOutcome{};
}

bool MemorySpace::release(const Key& key, const GrantId& attempt, const std::optional<TicketId>& ticket,
                          const core::After& after, core::StoreTime time) {
    Shard& its = shard(key);
    const std::lock_guard lock(its.mutex);
    core::Record* record = find(its, key);
    if (record == nullptr) return false;
    const core::ReleaseOutcome outcome = core::release(*record, attempt, ticket, after, time);
    wake(its, outcome.wake);
    return outcome.released;
}

core::ConfigureOutcome MemorySpace::configure(const ConfigureRequest& request, TimePoint now) {
    Shard& its = shard(request.key);
    const std::lock_guard lock(its.mutex);
    core::ConfigureOutcome outcome =
        core::configure(its.records[request.key], request.permits, request.if_current, now);
    wake(its, outcome.wake);
    return outcome;
}

Forced MemorySpace::force_release(const Key& key, std::string_view seen, TimePoint now) {
    Shard& its = shard(key);
    const std::lock_guard lock(its.mutex);
    core::Record* record = find(its, key);
    if (record == nullptr) return Forced::already_free;
    const core::ForceOutcome outcome = core::force_release(*record, seen, now);
    wake(its, outcome.wake);
    return outcome.forced;
}

/// Under the shard's lock, so that no loop that is being destroyed is posted to (see remove_waiter).
void MemorySpace::wake(Shard& shard, const std::vector<core::Ticket>& tickets) {
    for (const core::Ticket& ticket : tickets) {
        const auto [first, last] = shard.waiters.equal_range(ticket.id);
        for (auto one = first; one != last; ++one) post(one->second, Change::perhaps_mine);
    }
}

void MemorySpace::add_waiter(const Key& key, const TicketId& ticket, const WaiterPtr& waiter, TimePoint now) {
    Shard& its = shard(key);
    const std::lock_guard lock(its.mutex);
    its.waiters.emplace(ticket, waiter);
    core::Record* record = find(its, key);
    if (record == nullptr) return;
    const auto next = core::turns(*record, now);
    if (std::any_of(next.begin(), next.end(), [&](const core::Ticket& one) { return one.id == ticket; }))
        post(waiter, Change::perhaps_mine);
}

void MemorySpace::remove_waiter(const Key& key, const TicketId& ticket, const Waiter& waiter) noexcept {
    Shard& its = shard(key);
    const std::lock_guard lock(its.mutex);
    const auto [first, last] = its.waiters.equal_range(ticket);
    const auto found =
        std::find_if(first, last, [&](const auto& one) { return one.second.get() == &waiter; });
    if (found == last) return;
    found->second->wanted.store(false, std::memory_order_release);
    its.waiters.erase(found);
}

std::vector<Key> MemorySpace::first_keys(std::size_t most, const Wanted& wanted) const {
    std::vector<Key> keys;  // a heap, its greatest first, of the least seen so far
    for (const Shard& one : shards_) {
        const std::lock_guard lock(one.mutex);
        for (const auto& [key, record] : one.records) {
            if ((keys.size() == most && !(key < keys.front())) || !wanted(key, record)) continue;
            if (keys.size() == most) {
                std::pop_heap(keys.begin(), keys.end());
                keys.pop_back();
            }
            keys.push_back(key);
            std::push_heap(keys.begin(), keys.end());
        }
    }
    std::sort_heap(keys.begin(), keys.end());
    return keys;
}

/// A bounded piece of clean-up, shard by shard, so that memory comes back even from keys nobody asks for
/// again.
void MemorySpace::sweep(TimePoint now) {
    Shard& next = shards_[next_sweep_.fetch_add(1, std::memory_order_relaxed) % shard_count];
    const std::unique_lock lock(next.mutex, std::try_to_lock);
    if (lock) sweep(next, now);
}

void MemorySpace::sweep(Shard& shard, TimePoint now) {
    std::vector<Key> due;
    const std::size_t count = std::min(buckets_a_sweep, shard.records.bucket_count());
    for (std::size_t i = 0; i < count; ++i) {
        shard.swept = (shard.swept + 1) % shard.records.bucket_count();
        for (auto one = shard.records.begin(shard.swept); one != shard.records.end(shard.swept); ++one)
            if (core::idle_since(one->second) <= now - forget_after) due.push_back(one->first);
    }
    for (const Key& key : due) {
        const auto record = shard.records.find(key);
        // Raised under the shard's lock: who makes this key's next record reads the floor under it too.
        std::uint64_t floor = floor_.load(std::memory_order_relaxed);
        while (floor < record->second.last_fence &&
               !floor_.compare_exchange_weak(floor, record->second.last_fence)) {
        }
        shard.records.erase(record);
    }
}

}  // namespace dlock::store
