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

std::vector<Holder>::iterator find(Record& record, const GrantId& id) {
    return std::find_if(record.holders.begin(), record.holders.end(),
                        [&](const Holder& holder) { return holder.id == id; });
}

bool live(const Holder& holder, TimePoint now) noexcept { return now < holder.expires; }

bool is_new(const Record& record) noexcept { return record.last_fence == 0 && !record.pinned; }

/// Who holds just now, as far as it decides who may come in.
struct Present {
    std::size_t count = 0;
    bool alone = false;
};

Present present(const Record& record, TimePoint now) noexcept {
    Present found;
    for (const Holder& holder : record.holders) {
        if (!live(holder, now)) continue;
        ++found.count;
        found.alone = found.alone || alone(holder.mode);
    }
    return found;
}

/// Whether one who stands behind `ahead` tickets may come in.
bool may_enter(const Record& record, Mode mode, std::size_t ahead, Present holding) {
    if (mode == Mode::permit)
        return holding.count + ahead < record.permits + (planted(Planted::one_permit_too_many) ? 1U : 0U);
    if (planted(Planted::readers_not_counted) && !holding.alone) holding.count = 0;
    if (planted(Planted::reader_passes_writer) && !alone(mode)) ahead = 0;
    if (alone(mode)) return holding.count == 0 && ahead == 0;
    const auto first = record.tickets.begin();
    return !holding.alone && std::none_of(first, first + static_cast<std::ptrdiff_t>(ahead),
                                          [](const Ticket& ticket) { return alone(ticket.mode); });
}

void join_tail(Record& record, const AcquireAsk& ask, TimePoint now) {
    const Standing& standing = *ask.standing;
    record.tickets.push_back(Ticket{.id = standing.ticket,
                                    .mode = ask.mode,
                                    .owner = ask.owner,
                                    .arrival = now,
                                    .expires = now + standing.lease,
                                    .wake = std::string(standing.wake)});
}

std::uint64_t next_fence(const Record& record, std::uint64_t wall_us, std::uint64_t floor) {
    if (planted(Planted::fence_from_clock_only)) return wall_us;
    if (planted(Planted::fence_reused) && !record.holders.empty()) return record.last_fence;
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
    if (alone(ask.mode))
        record.holders.clear();
    else
        std::erase_if(record.holders, [&](const Holder& holder) { return !live(holder, time.now); });
    record.holders.push_back(Holder{.id = ask.attempt,
                                    .mode = ask.mode,
                                    .owner = std::move(ask.owner),
                                    .fence = fence,
                                    .since = time.now,
                                    .expires = time.now + ask.lease,
                                    .lease = ask.lease,
                                    .wall_us = time.wall_us});
    return fence;
}

/// The place is kept where the ticket is known, though the waiter behind it may be another one now.
void stand(Record& record, TicketSpot spot, AcquireAsk&& ask, TimePoint now) {
    if (spot == record.tickets.end()) return join_tail(record, ask, now);
    spot->owner = std::move(ask.owner);
    spot->expires = now + ask.standing->lease;
    spot->wake = ask.standing->wake;
}

AcquireOutcome convert(Record& record, const AcquireAsk& ask, StoreTime time) {
    const auto mine = find(record, ask.attempt);
    if (mine == record.holders.end() || !live(*mine, time.now)) return {.what = Acquiring::lost};
    if (mine->mode == ask.mode) return {.what = Acquiring::granted, .fence = mine->fence};
    if (mine->fence != *ask.converts) return {};
    record.touched = time.now;
    if (ask.mode == Mode::shared) {
        mine->mode = Mode::shared;
        return {.what = Acquiring::granted, .fence = mine->fence, .wake = turns(record, time.now)};
    }
    if (present(record, time.now).count != 1) return {};
    // Higher than that of every reader that came since, so that the resource takes it.
    mine->fence = Fence{next_fence(record, time.wall_us, 0)};
    mine->mode = Mode::write;
    record.last_fence = mine->fence.value;
    return {.what = Acquiring::granted, .fence = mine->fence};
}

/// Live, a grant leaves what was asked for. Held off, the lock is with nobody who could renew or release.
void end(Record& record, std::vector<Holder>::iterator mine, const After& after, StoreTime time) {
    const bool was_live = live(*mine, time.now);
    if (was_live && after.result)
        record.done = Done{.result = *after.result,
                           .owner = mine->owner,
                           .at = time.now,
                           .until = time.now + after.keep,
                           .wall_us = time.wall_us};
    if (!was_live || after.hold_off <= milliseconds(0)) {
        record.holders.erase(mine);
        return;
    }
    mine->id = held_off(mine->id);
    mine->lease = milliseconds(0);
    mine->expires = time.now + after.hold_off;
}

/// Nothing where the ask fits what the key is.
std::optional<Acquiring> unfit(Record& record, const AcquireAsk& ask) {
    if (is_new(record)) {
        record.kind = kind_of(ask.mode);
        record.permits = ask.permits;
    }
    if (record.kind != kind_of(ask.mode)) return Acquiring::kind_differs;
    if (ask.mode != Mode::permit) return std::nullopt;
    const bool differs = ask.permits != 0 && ask.permits != record.permits;
    return differs || record.permits == 0 ? std::optional(Acquiring::limit_differs) : std::nullopt;
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

std::string_view to_string(Mode mode) noexcept {
    switch (mode) {
        case Mode::exclusive:
            return "exclusive";
        case Mode::write:
            return "write";
        case Mode::shared:
            return "shared";
        case Mode::permit:
            return "permit";
    }
    return "unknown";
}

Mode mode_of(std::string_view name) noexcept {
    for (const Mode mode : {Mode::write, Mode::shared, Mode::permit})
        if (to_string(mode) == name) return mode;
    return Mode::exclusive;
}

const Holder* live_holder(const Record& record, TimePoint now) noexcept {
    for (const Holder& holder : record.holders)
        if (live(holder, now)) return &holder;
    return nullptr;
}

void drop_expired_tickets(Record& record, TimePoint now) {
    if (planted(Planted::dead_ticket_blocks)) return;
    std::erase_if(record.tickets, [now](const Ticket& ticket) { return now >= ticket.expires; });
}

std::vector<Ticket> turns(Record& record, TimePoint now) {
    drop_expired_tickets(record, now);
    std::vector<Ticket> next;
    const Present holding = present(record, now);
    for (const Ticket& ticket : record.tickets) {
        if (!may_enter(record, ticket.mode, next.size(), holding)) break;
        next.push_back(ticket);
    }
    return next;
}

AcquireOutcome acquire(Record& record, AcquireAsk ask, StoreTime time, std::uint64_t floor) {
    if (const auto problem = unfit(record, ask)) return {.what = *problem};
    if (ask.converts) return convert(record, ask, time);
    const auto mine = find(record, ask.attempt);
    if (mine != record.holders.end() && live(*mine, time.now) && !planted(Planted::attempt_not_recognised))
        return {.what = Acquiring::granted, .fence = mine->fence};
    if (ask.results == AcquireAsk::Results::want && record.done && time.now < record.done->until)
        return {.what = Acquiring::done};

    drop_expired_tickets(record, time.now);
    const auto spot = ask.standing ? find(record, ask.standing->ticket) : record.tickets.end();
    const auto ahead = static_cast<std::size_t>(spot - record.tickets.begin());
    const Present holding = planted(Planted::expiry_ignored) ? Present{} : present(record, time.now);
    if (may_enter(record, ask.mode, planted(Planted::newcomer_overtakes) ? 0 : ahead, holding)) {
        record.touched = time.now;
        return {.what = Acquiring::granted, .fence = grant(record, std::move(ask), time, floor)};
    }
    if (!ask.standing) return {.what = Acquiring::contended, .ahead = ahead};
    record.touched = time.now;
    stand(record, spot, std::move(ask), time.now);
    return {.what = Acquiring::queued, .ahead = ahead};
}

bool renew_lease(Record& record, const GrantId& id, milliseconds lease, TimePoint now) {
    const auto mine = find(record, id);
    if (mine == record.holders.end()) return false;
    if (!live(*mine, now) && !planted(Planted::expired_still_renewed)) return false;
    mine->expires = now + lease;
    mine->lease = lease;
    record.touched = now;
    return true;
}

TicketOutcome renew_ticket(Record& record, const TicketId& id, milliseconds lease, TimePoint now) {
    drop_expired_tickets(record, now);
    const auto spot = find(record, id);
    if (spot == record.tickets.end() || now >= spot->expires) return {};
    spot->expires = now + lease;
    record.touched = now;
    TicketOutcome outcome{.alive = true};
    const auto ahead = static_cast<std::size_t>(spot - record.tickets.begin());
    outcome.turn = may_enter(record, spot->mode, ahead, present(record, now));
    if (outcome.turn) return outcome;
    for (const Holder& holder : record.holders) {
        if (!live(holder, now)) continue;
        const auto left = std::chrono::ceil<milliseconds>(holder.expires - now);
        outcome.holder_left = outcome.holder_left ? std::min(*outcome.holder_left, left) : left;
    }
    return outcome;
}

ReleaseOutcome release(Record& record, const GrantId& attempt, const std::optional<TicketId>& ticket,
                       const After& after, StoreTime time) {
    ReleaseOutcome outcome;
    bool turn_moved = false;
    if (ticket) {
        drop_expired_tickets(record, time.now);
        const auto spot = find(record, *ticket);
        if (spot != record.tickets.end()) {
            turn_moved = true;
            record.tickets.erase(spot);
            record.touched = time.now;
        }
    }
    auto mine = find(record, attempt);
    if (planted(Planted::release_ignores_owner)) mine = record.holders.begin();
    if (mine != record.holders.end()) {
        outcome.released = live(*mine, time.now);
        record.touched = time.now;
        turn_moved = true;
        end(record, mine, after, time);
    }
    if (turn_moved) outcome.wake = turns(record, time.now);
    return outcome;
}

ForceOutcome force_release(Record& record, std::string_view seen, TimePoint now) {
    if (live_holder(record, now) == nullptr) return {.forced = Forced::already_free, .wake = {}};
    const auto found = std::find_if(record.holders.begin(), record.holders.end(), [&](const Holder& holder) {
        return live(holder, now) && public_id(holder.id) == seen;
    });
    if (found == record.holders.end()) return {.forced = Forced::moved_on, .wake = {}};
    record.holders.erase(found);
    record.touched = now;
    return {.forced = Forced::done, .wake = turns(record, now)};
}

ConfigureOutcome configure(Record& record, std::uint32_t permits, std::optional<std::uint32_t> if_current,
                           TimePoint now) {
    using What = ConfigureOutcome::What;
    if (!is_new(record) && record.kind != Kind::permits) return {.what = What::kind_differs};
    const std::uint32_t current = is_new(record) ? 0 : record.permits;
    if (if_current && *if_current != current) return {.what = What::differs, .permits = current};
    record.touched = now;
    record.pinned = permits != 0;
    record.kind = Kind::permits;
    if (permits != 0) record.permits = permits;
    return {.what = What::changed, .permits = permits != 0 ? permits : current, .wake = turns(record, now)};
}

TimePoint idle_since(const Record& record) noexcept {
    if (record.pinned) return TimePoint::max();
    TimePoint idle = record.touched;
    for (const Holder& holder : record.holders) idle = std::max(idle, holder.expires);
    for (const Ticket& ticket : record.tickets) idle = std::max(idle, ticket.expires);
    return record.done ? std::max(idle, record.done->until) : idle;
}

}  // namespace dlock::core
