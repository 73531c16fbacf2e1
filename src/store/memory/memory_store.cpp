// SPDX-License-Identifier: Apache-2.0
#include "store/memory/memory_store.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "core/text.hpp"
#include "store/by_rules.hpp"
#include "store/memory/memory_space.hpp"

namespace dlock::store {
namespace {

constexpr std::size_t shown_waiters = 100;
constexpr std::size_t shown_holders = 1000;

std::uint64_t realtime_us() noexcept {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec) / 1000;
}

milliseconds until(TimePoint from, TimePoint to) { return std::chrono::ceil<milliseconds>(to - from); }

HolderInfo describe(const core::Holder& holder, TimePoint now) {
    HolderInfo info;
    info.public_id = core::public_id(holder.id);
    info.mode = core::to_string(holder.mode);
    info.held_off = holder.lease == milliseconds(0);
    info.owner = *holder.owner;
    info.fence = holder.fence;
    info.held_for = until(holder.since, now);
    info.expires_in = until(now, holder.expires);
    info.since = std::chrono::system_clock::time_point(std::chrono::microseconds(holder.wall_us));
    return info;
}

std::optional<HolderInfo> describe(const std::optional<core::Holder>& holder, TimePoint now) {
    return holder ? std::optional(describe(*holder, now)) : std::nullopt;
}

WaiterInfo describe(const core::Ticket& ticket, TimePoint now) {
    WaiterInfo info;
    info.mode = core::to_string(ticket.mode);
    info.owner = *ticket.owner;
    info.waited_for = until(ticket.arrival, now);
    info.expires_in = until(now, ticket.expires);
    return info;
}

LockInfo describe(const Key& key, core::Record record, std::size_t most_waiters, TimePoint now) {
    LockInfo info;
    info.key = key;
    info.kind = core::to_string(record.kind);
    if (record.kind == core::Kind::permits) info.permits = record.permits;
    for (const core::Holder& holder : record.holders)
        if (now < holder.expires && info.holders.size() < shown_holders)
            info.holders.push_back(describe(holder, now));
    core::drop_expired_tickets(record, now);
    info.waiter_count = record.tickets.size();
    for (std::size_t i = 0; i < std::min(most_waiters, record.tickets.size()); ++i)
        info.waiters.push_back(describe(record.tickets[i], now));
    if (record.last_fence != 0) info.last_fence = Fence{record.last_fence};
    return info;
}

class MemoryWatch final : public Watch {
public:
    MemoryWatch(std::shared_ptr<MemorySpace> space, SubjectPtr subject, const TicketId& ticket,
                MemorySpace::WaiterPtr waiter)
        : space_(std::move(space)),
          subject_(std::move(subject)),
          ticket_(ticket),
          waiter_(std::move(waiter)) {}
    MemoryWatch(const MemoryWatch&) = delete;
    MemoryWatch& operator=(const MemoryWatch&) = delete;
    ~MemoryWatch() override { space_->remove_waiter(subject_->key, ticket_, *waiter_); }

private:
    std::shared_ptr<MemorySpace> space_;
    SubjectPtr subject_;
    TicketId ticket_;
    MemorySpace::WaiterPtr waiter_;
};

class MemoryStore final : public Store {
public:
    MemoryStore(std::shared_ptr<MemorySpace> space, Loop& loop, MemoryClock clock)
        : space_(std::move(space)), loop_(loop), clock_(std::move(clock)) {
        capabilities_.clock = Clock::boot;
    }

    [[nodiscard]] const Capabilities& capabilities() const noexcept override { return capabilities_; }
    void acquire(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) override;
    void renew(std::vector<RenewItem> items, Call call, Completion<std::vector<RenewAnswer>> done) override;
    void release(const ReleaseRequest& request, Call call, Completion<Result<Released>> done) override;
    std::unique_ptr<Watch> watch(const SubjectPtr& subject, const TicketId& ticket,
                                 std::function<void(Change)> changed) override;
    void inspect(const InspectRequest& request, Call call, Completion<Result<Page>> done) override;
    void force_release(const Key& key, const std::string& seen, Call call,
                       Completion<Result<Forced>> done) override;
    void configure(const ConfigureRequest& request, Call call, Completion<Result<Configured>> done) override;
    void check(Call call, Completion<Result<std::vector<Finding>>> done) override;

private:
    [[nodiscard]] TimePoint now() const { return clock_.now ? clock_.now() : loop_.now(); }
    [[nodiscard]] core::StoreTime time() const {
        return {.now = now(), .wall_us = clock_.wall_us ? clock_.wall_us() : realtime_us()};
    }
    AcquireAnswer acquire_now(const AcquireRequest& request);
    [[nodiscard]] Page one(const Key& key) const;
    [[nodiscard]] Result<Page> page(const Filter& filter) const;

    std::shared_ptr<MemorySpace> space_;
    Loop& loop_;
    MemoryClock clock_;
    Capabilities capabilities_;
};

AcquireAnswer MemoryStore::acquire_now(const AcquireRequest& request) {
    const core::StoreTime at = time();
    MemorySpace::Seen seen;
    const core::AcquireOutcome outcome = space_->acquire(request.subject->key, ask_of(request), at, seen);
    switch (outcome.what) {
        case core::Acquiring::granted:
            return Granted{.fence = outcome.fence, .handle = {}, .counted_from = {}};
        case core::Acquiring::queued:
            return Queued{.holder = describe(seen.holder, at.now), .place = outcome.ahead};
        case core::Acquiring::contended:
            break;
        case core::Acquiring::done:
            return done_of(*seen.done, at.now);
        case core::Acquiring::lost:
            return grant_gone();
        case core::Acquiring::kind_differs:
            return kind_differs(seen.kind, request.mode);
        case core::Acquiring::limit_differs:
            return limit_differs(seen.permits, request.permits);
    }
    Contended contended{.holder = describe(seen.holder, at.now), .retry_in = {}};
    if (seen.holder) contended.retry_in = until(at.now, seen.holder->expires);
    return contended;
}

void MemoryStore::acquire(const AcquireRequest& request, Call /*call*/, Completion<AcquireAnswer> done) {
    done(acquire_now(request));
}

void MemoryStore::renew(std::vector<RenewItem> items, Call /*call*/,
                        Completion<std::vector<RenewAnswer>> done) {
    const TimePoint at = now();
    std::vector<RenewAnswer> answers;
    answers.reserve(items.size());
    for (const RenewItem& item : items) {
        RenewAnswer& answer = answers.emplace_back();
        if (const auto* grant = std::get_if<GrantId>(&item.id)) {
            const bool renewed = space_->renew(item.subject->key, *grant, item.lease, at);
            answer.renewal = renewed ? Renewal::renewed : Renewal::lost;
        } else {
            const auto ticket = space_->renew(item.subject->key, std::get<TicketId>(item.id), item.lease, at);
            answer.renewal = ticket.alive ? Renewal::renewed : Renewal::lost;
            answer.turn = ticket.turn;
            answer.holder_left = ticket.holder_left;
        }
    }
    done(std::move(answers));
}

void MemoryStore::release(const ReleaseRequest& request, Call /*call*/, Completion<Result<Released>> done) {
    // Only a result is stamped with the wall clock.
    const core::StoreTime at = request.after.result ? time() : core::StoreTime{.now = now()};
    const bool released =
        space_->release(request.subject->key, request.attempt, request.ticket, request.after, at);
    done(released ? Released::released : Released::not_owner);
}

std::unique_ptr<Watch> MemoryStore::watch(const SubjectPtr& subject, const TicketId& ticket,
                                          std::function<void(Change)> changed) {
    auto waiter = std::make_shared<MemorySpace::Waiter>(loop_, std::move(changed));
    auto watch = std::make_unique<MemoryWatch>(space_, subject, ticket, waiter);
    space_->add_waiter(subject->key, ticket, waiter, now());
    return watch;
}

Page MemoryStore::one(const Key& key) const {
    Page page;
    if (auto record = space_->find(key))
        page.locks.push_back(describe(key, *std::move(record), shown_waiters, now()));
    return page;
}

Result<Page> MemoryStore::page(const Filter& filter) const {
    const auto after = core::unescape(filter.cursor);
    if (!after)
        return Error(errc::invalid_argument, "the cursor is not one that a list gave; begin without one");
    const TimePoint at = now();
    const auto wanted = [&](const Key& key, const core::Record& record) {
        return key.bytes() > *after && key.bytes().starts_with(filter.prefix) &&
               (!filter.held_only || core::live_holder(record, at) != nullptr);
    };
    const std::size_t limit = std::clamp<std::size_t>(filter.limit, 1, 10'000);
    std::vector<Key> keys = space_->first_keys(limit + 1, wanted);
    Page page;
    if (keys.size() > limit) {
        keys.pop_back();
        page.next = keys.back().text();
    }
    for (const Key& key : keys) {
        auto record = space_->find(key);
        if (record && wanted(key, *record)) page.locks.push_back(describe(key, *std::move(record), 0, at));
    }
    return page;
}

void MemoryStore::inspect(const InspectRequest& request, Call /*call*/, Completion<Result<Page>> done) {
    done(request.only ? Result<Page>(one(*request.only)) : page(request.filter));
}

void MemoryStore::force_release(const Key& key, const std::string& seen, Call /*call*/,
                                Completion<Result<Forced>> done) {
    done(space_->force_release(key, seen, now()));
}

void MemoryStore::configure(const ConfigureRequest& request, Call /*call*/,
                            Completion<Result<Configured>> done) {
    done(configured(space_->configure(request, now())));
}

void MemoryStore::check(Call /*call*/, Completion<Result<std::vector<Finding>>> done) {
    done(std::vector<Finding>{
        {Severity::note, "scope", "this process only: other processes have locks of their own",
         "between processes use sqlite:/path/locks.db, between machines redis://host"}});
}

}  // namespace

Result<std::unique_ptr<Store>> open_memory(const Url& url, const StoreEnv& env) {
    if (!url.hosts.empty() || url.path.empty())
        return Error(errc::invalid_argument, "store URL: a memory store is named like memory:name");
    if (auto allowed = url.allow_params({}); !allowed) return std::move(allowed).error();
    return make_memory_store(MemorySpace::of_name(url.path), env);
}

std::unique_ptr<Store> make_memory_store(std::shared_ptr<MemorySpace> space, const StoreEnv& env,
                                         MemoryClock clock) {
    return std::make_unique<MemoryStore>(std::move(space), env.loop, std::move(clock));
}

}  // namespace dlock::store
