// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/record.hpp"
#include "store/store.hpp"

namespace dlock::store {

/// The locks of one `memory:name`, in shards so that threads on different keys do not meet. The rules are
/// those of core/record.hpp; this only finds the record, locks it, wakes waiters and forgets what nobody uses
/// any more.
class MemorySpace {
public:
    /// The space of that name in this process; it lives as long as somebody keeps it.
    static std::shared_ptr<MemorySpace> of_name(const std::string& name);

    /// A waiter to be called back on its own loop.
    struct Waiter {
        Waiter(Loop& its_loop, std::function<void(Change)> callback)
            : loop(its_loop), changed(std::move(callback)) {}
        Loop& loop;
        std::function<void(Change)> changed;
        std::atomic<bool> wanted{true};
    };
    using WaiterPtr = std::shared_ptr<Waiter>;

    /// What an answer to an acquire may tell besides its outcome.
    struct Seen {
        std::optional<core::Holder> holder;
        std::optional<core::Done> done;
        core::Kind kind{};
        std::uint32_t permits = 0;
    };
    core::AcquireOutcome acquire(const Key& key, core::AcquireAsk ask, core::StoreTime time, Seen& seen);
    bool renew(const Key& key, const GrantId& id, milliseconds lease, TimePoint now);
    core::TicketOutcome renew(const Key& key, const TicketId& id, milliseconds lease, TimePoint now);
    bool release(const Key& key, const GrantId& attempt, const std::optional<TicketId>& ticket,
                 const core::After& after, core::StoreTime time);
    core::ConfigureOutcome configure(const ConfigureRequest& request, TimePoint now);
    Forced force_release(const Key& key, std::string_view seen, TimePoint now);

    /// Calls back at once when it is the ticket's turn already.
    void add_waiter(const Key& key, const TicketId& ticket, const WaiterPtr& waiter, TimePoint now);
    /// No callback begins after it returned.
    void remove_waiter(const Key& key, const TicketId& ticket, const Waiter& waiter) noexcept;

    /// The `most` first keys, in order, that `wanted` accepts.
    using Wanted = std::function<bool(const Key&, const core::Record&)>;
    [[nodiscard]] std::vector<Key> first_keys(std::size_t most, const Wanted& wanted) const;
    [[nodiscard]] std::optional<core::Record> find(const Key& key) const;

private:
    struct alignas(64) Shard {
        mutable std::mutex mutex;
        std::unordered_map<Key, core::Record> records;
        std::unordered_multimap<TicketId, WaiterPtr> waiters;
        std::size_t swept = 0;  ///< the bucket where clean-up goes on
        std::uint64_t acquires = 0;
    };
    static constexpr std::size_t shard_count = 16;

    Shard& shard(const Key& key) noexcept { return shards_[std::hash<Key>{}(key) % shard_count]; }
    const Shard& shard(const Key& key) const noexcept { return shards_[std::hash<Key>{}(key) % shard_count]; }
    static core::Record* find(Shard& shard, const Key& key);
    static void wake(Shard& shard, const std::vector<core::Ticket>& tickets);
    void sweep(TimePoint now);
    void sweep(Shard& shard, TimePoint now);

    std::array<Shard, shard_count> shards_;
    std::atomic<std::uint64_t> floor_{0};  ///< the highest fence that was forgotten
    std::atomic<std::size_t> next_sweep_{0};
};

}  // namespace dlock::store
