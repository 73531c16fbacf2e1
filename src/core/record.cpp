// SPDX-License-Identifier: Apache-2.0
#include "core/record.hpp"

#include <algorithm>

#include "core/planted.hpp"

namespace dlock::core {
namespace {

using TicketSpot = std::vector<Ticket>::iterator;

TicketSpot find(Record& record, const TicketId& id) {
    return std::find_if(record.tickets.begin(), record.tickets.end(),
                        [&](const Ticket& ticket) { return ticket.id == id; });
}

void drop_expired(Record& record, TimePoint now) {
    if (planted(Planted::dead_ticket_blocks)) return;
    std::erase_if(record.tickets, [now](const Ticket& ticket) { return now >= ticket.expires; });
}

void join_tail(Record& record, const AcquireAsk& ask, TimePoint now) {
    const Standing& standing = *ask.standing;
    record.tickets.push_back(Ticket{.id = standing.ticket,
                                    .owner = ask.owner,
                                    .arrival = now,
                                    .expires = now + standing.lease,
                                    .wake = std::string(standing.wake)});
}

std::uint64_t next_fence(const Record& record, std::uint64_t wall_us, std::uint64_t floor) {
    if (planted(Planted::fence_from_clock_only)) return wall_us;
    if (planted(Planted::fence_reused) && record.holder) return record.last_fence;
    const std::uint64_t last = record.last_fence != 0 ? record.last_fence : floor;
    return std::max(last + 1, wall_us);
}

Fence grant(Record& record, AcquireAsk ask, StoreTime time, std::uint64_t floor) {
    if (ask.standing) {
        const auto spot = find(record, ask.standing->ticket);
        if (spot != record.tickets.end()) record.tickets.erase(spot);
        if (ask.standing->after_grant == Standing::AfterGrant::rejoin) join_tail(record, ask, time.now);
    }
    const Fence fence{next_fence(record, time.wall_us, floor)};
    record.last_fence = fence.value;
    record.holder = Holder{.id = ask.attempt,
                           .owner = std::move(ask.owner),
                           .fence = fence,
                           .since = time.now,
                           .expires = time.now + ask.lease,
                           .lease = ask.lease,
                           .wall_us = time.wall_us};
    return fence;
}

/// The place is kept where the ticket is known, though the waiter behind it may be another one now.
void stand(Record& record, TicketSpot spot, AcquireAsk&& ask, TimePoint now) {
    if (spot == record.tickets.end()) return join_tail(record, ask, now);
    spot->owner = std::move(ask.owner);
    spot->expires = now + ask.standing->lease;
    spot->wake = ask.standing->wake;
}

std::optional<Ticket> to_wake(Record& record, TimePoint now) {
    if (live_holder(record, now) != nullptr) return std::nullopt;
    const Ticket* first = head(record, now);
    return first != nullptr ? std::optional<Ticket>(*first) : std::nullopt;
}

}  // namespace

std::string_view to_string(Kind kind) noexcept {
    switch (kind) {
        case Kind::mutex:
            return "mutex";
        case Kind::read_write:
            return "read_write";
        case Kind::permits:
            return "permits";
    }
    return "unknown";
}

const Holder* live_holder(const Record& record, TimePoint now) noexcept {
    return record.holder && now < record.holder->expires ? &*record.holder : nullptr;
}

const Ticket* head(Record& record, TimePoint now) {
    drop_expired(record, now);
    return record.tickets.empty() ? nullptr : &record.tickets.front();
}

AcquireOutcome acquire(Record& record, AcquireAsk ask, StoreTime time, std::uint64_t floor) {
    if (record.last_fence == 0) record.kind = ask.kind;
    if (record.kind != ask.kind) return {.what = Acquiring::kind_differs};
    const Holder* holder = live_holder(record, time.now);
    if (holder != nullptr && holder->id == ask.attempt && !planted(Planted::attempt_not_recognised))
        return {.what = Acquiring::granted, .fence = holder->fence};

    drop_expired(record, time.now);
    const auto spot = ask.standing ? find(record, ask.standing->ticket) : record.tickets.end();
    const auto ahead = static_cast<std::size_t>(spot - record.tickets.begin());
    const bool free = holder == nullptr || planted(Planted::expiry_ignored);
    if (free && (ahead == 0 || planted(Planted::newcomer_overtakes))) {
        record.touched = time.now;
        return {.what = Acquiring::granted, .fence = grant(record, std::move(ask), time, floor)};
    }
    if (!ask.standing) return {.what = Acquiring::contended, .ahead = ahead};
    record.touched = time.now;
    stand(record, spot, std::move(ask), time.now);
    return {.what = Acquiring::queued, .ahead = ahead};
}

bool renew_lease(Record& record, const GrantId& id, milliseconds lease, TimePoint now) {
    if (!record.holder || record.holder->id != id) return false;
    if (now >= record.holder->expires && !planted(Planted::expired_still_renewed)) return false;
    record.holder->expires = now + lease;
    record.holder->lease = lease;
    record.touched = now;
    return true;
}

TicketOutcome renew_ticket(Record& record, const TicketId& id, milliseconds lease, TimePoint now) {
    drop_expired(record, now);
    const auto spot = find(record, id);
    if (spot == record.tickets.end() || now >= spot->expires) return {};
    spot->expires = now + lease;
    record.touched = now;
    TicketOutcome outcome{.alive = true};
    if (const Holder* holder = live_holder(record, now))
        outcome.holder_left = std::chrono::ceil<milliseconds>(holder->expires - now);
    else
        outcome.turn = spot == record.tickets.begin();
    return outcome;
}

ReleaseOutcome release(Record& record, const GrantId& attempt, const std::optional<TicketId>& ticket,
                       TimePoint now) {
    ReleaseOutcome outcome;
    bool turn_moved = false;
    if (ticket) {
        drop_expired(record, now);
        const auto spot = find(record, *ticket);
        if (spot != record.tickets.end()) {
            turn_moved = spot == record.tickets.begin();
            record.tickets.erase(spot);
            record.touched = now;
        }
    }
    if (record.holder && (record.holder->id == attempt || planted(Planted::release_ignores_owner))) {
        outcome.released = live_holder(record, now) != nullptr;
        record.holder.reset();
        record.touched = now;
        turn_moved = true;
    }
    if (turn_moved) outcome.wake = to_wake(record, now);
    return outcome;
}

ForceOutcome force_release(Record& record, std::string_view seen, TimePoint now) {
    const Holder* holder = live_holder(record, now);
    if (holder == nullptr) return {.forced = Forced::already_free, .wake = {}};
    if (public_id(holder->id) != seen) return {.forced = Forced::moved_on, .wake = {}};
    record.holder.reset();
    record.touched = now;
    return {.forced = Forced::done, .wake = to_wake(record, now)};
}

TimePoint idle_since(const Record& record) noexcept {
    TimePoint idle = record.touched;
    if (record.holder) idle = std::max(idle, record.holder->expires);
    for (const Ticket& ticket : record.tickets) idle = std::max(idle, ticket.expires);
    return idle;
}

}  // namespace dlock::core
