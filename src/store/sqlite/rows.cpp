// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/rows.hpp"

#include <algorithm>
#include <cstring>

#include "store/owner_json.hpp"

namespace dlock::store::sqlite {
namespace {

template <class Id>
std::optional<Id> to_id(std::string_view bytes) {
    Id id;
    if (bytes.size() != id.bytes.size()) return std::nullopt;
    std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
    return id;
}

milliseconds ms_from_us(std::int64_t us) {
    return std::chrono::floor<milliseconds>(std::chrono::microseconds(us));
}

void add_holder(Stored& stored, core::Holder holder, std::string_view owner) {
    stored.owners.emplace_back(owner);
    stored.held.push_back(holder);
    stored.record.holders.push_back(std::move(holder));
}

/// Its times; those of another boot begin anew.
void read_times(const db::Query& row, int since_column, core::Holder& holder, Stored& stored, Moment moment,
                bool this_boot) {
    holder.since = from_us(row.integer(since_column));
    holder.wall_us = static_cast<std::uint64_t>(std::max<std::int64_t>(row.integer(since_column + 1), 0));
    holder.expires = from_us(row.integer(since_column + 2));
    holder.lease = ms_from_us(row.integer(since_column + 3));
    if (this_boot) return;
    holder.expires = from_us(moment.now) + holder.lease;
    holder.since = from_us(moment.now);
    stored.restamped = true;
}

void read_holder(const db::Query& row, Stored& stored, Moment moment, std::string_view boot) {
    const auto id = to_id<GrantId>(row.bytes(5));
    const auto mode = static_cast<core::Mode>(row.integer(14));
    if (!id || row.null(9) || row.null(10) || row.integer(10) < 0 || row.integer(15) <= 0 ||
        core::kind_of(mode) != stored.record.kind) {
        stored.problem = "the holder's columns do not make sense";
        return;
    }
    stored.first = *id;
    core::Holder holder{.id = *id, .mode = mode, .fence = Fence{static_cast<std::uint64_t>(row.integer(15))}};
    read_times(row, 7, holder, stored, moment, row.bytes(11) == boot);
    add_holder(stored, std::move(holder), row.bytes(6));
}

void read_others(db::Sqlite& db, std::string_view key, Stored& stored, Moment moment, std::string_view boot) {
    db::Query row(db,
                  "SELECT holder, mode, fence, owner, since, wall, expires, lease, boot FROM dlock_holders "
                  "WHERE key = ?1 ORDER BY fence");
    row.bind(db::Blob{key});
    while (row.row()) {
        const auto id = to_id<GrantId>(row.bytes(0));
        const auto mode = static_cast<core::Mode>(row.integer(1));
        if (!id || row.integer(2) <= 0 || row.integer(7) < 0 || core::kind_of(mode) != stored.record.kind) {
            stored.problem = "the columns of a holder do not make sense";
            return;
        }
        core::Holder holder{
            .id = *id, .mode = mode, .fence = Fence{static_cast<std::uint64_t>(row.integer(2))}};
        read_times(row, 4, holder, stored, moment, row.bytes(8) == boot);
        add_holder(stored, std::move(holder), row.bytes(3));
    }
}

void read_ticket(const db::Query& row, Stored& stored, Moment moment, std::string_view boot) {
    const auto id = to_id<TicketId>(row.bytes(1));
    if (!id) {
        stored.problem = "a ticket of its line has no proper id";
        return;
    }
    const milliseconds lease = ms_from_us(row.integer(5));
    TimePoint expires = from_us(row.integer(4));
    if (row.bytes(6) != boot) {
        expires = from_us(moment.now) + lease;
        stored.restamped = true;
    }
    stored.places.push_back({.ticket = *id, .number = row.integer(0), .lease = lease, .expires = expires});
    stored.record.tickets.push_back(core::Ticket{.id = *id,
                                                 .mode = static_cast<core::Mode>(row.integer(7)),
                                                 .owner = nullptr,
                                                 .arrival = from_us(row.integer(3)),
                                                 .expires = expires,
                                                 .wake = std::string(row.bytes(2))});
}

void bind_lock(db::Query& query, std::string_view key, const core::Record& record, std::int64_t used,
               std::size_t others) {
    query.bind(db::Blob{key}).bind(static_cast<std::int64_t>(record.kind));
    query.bind(static_cast<std::int64_t>(record.last_fence));
    query.bind(static_cast<std::int64_t>(record.tickets.size())).bind(used);
    query.bind(static_cast<std::int64_t>(others)).bind(std::int64_t{record.permits});
    query.bind(std::int64_t{record.pinned});
}

void save_without(db::Sqlite& db, std::string_view key, const core::Record& record, std::int64_t used,
                  std::size_t others) {
    db::Query query(
        db,
        "INSERT INTO dlock_locks(key, kind, fence, tickets, used, others, permits, pinned, held, version) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, 1) ON CONFLICT (key) DO UPDATE SET "
        "version = version + 1, held = 0, kind = ?2, fence = ?3, tickets = ?4, used = ?5, others = ?6, "
        "permits = ?7, pinned = ?8");
    bind_lock(query, key, record, used, others);
    query.finish();
}

void save_with(db::Sqlite& db, std::string_view key, const core::Record& record, std::int64_t used,
               std::size_t others, const core::Holder& holder, std::string_view owner,
               std::string_view boot) {
    db::Query query(
        db,
        "INSERT INTO dlock_locks(key, kind, fence, tickets, used, others, permits, pinned, holder, owner, "
        "since, wall, expires, lease, boot, mode, holder_fence, held, version) VALUES (?1, ?2, ?3, ?4, ?5, "
        "?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 1, 1) ON CONFLICT (key) DO UPDATE SET "
        "version = version + 1, held = 1, kind = ?2, fence = ?3, tickets = ?4, used = ?5, others = ?6, "
        "permits = ?7, pinned = ?8, holder = ?9, owner = ?10, since = ?11, wall = ?12, expires = ?13, "
        "lease = ?14, boot = ?15, mode = ?16, holder_fence = ?17");
    bind_lock(query, key, record, used, others);
    query.bind(db::Blob{holder.id.raw()}).bind(owner);
    query.bind(to_us(holder.since)).bind(static_cast<std::int64_t>(holder.wall_us));
    query.bind(to_us(holder.expires)).bind(to_us(holder.lease)).bind(db::Blob{boot});
    query.bind(static_cast<std::int64_t>(holder.mode));
    query.bind(static_cast<std::int64_t>(holder.fence.value)).finish();
}

void save_holder(db::Sqlite& db, std::string_view key, const core::Holder& holder, std::string_view owner,
                 std::string_view boot) {
    db::Query query(db,
                    "INSERT INTO dlock_holders(key, holder, mode, fence, owner, since, wall, expires, lease, "
                    "boot) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (key, holder) "
                    "DO UPDATE SET mode = ?3, fence = ?4, since = ?6, expires = ?8, lease = ?9, boot = ?10");
    query.bind(db::Blob{key}).bind(db::Blob{holder.id.raw()}).bind(static_cast<std::int64_t>(holder.mode));
    query.bind(static_cast<std::int64_t>(holder.fence.value)).bind(owner).bind(to_us(holder.since));
    query.bind(static_cast<std::int64_t>(holder.wall_us)).bind(to_us(holder.expires));
    query.bind(to_us(holder.lease)).bind(db::Blob{boot}).finish();
}

void drop_holder(db::Sqlite& db, std::string_view key, const GrantId& id) {
    db::Query(db, "DELETE FROM dlock_holders WHERE key = ?1 AND holder = ?2")
        .bind(db::Blob{key})
        .bind(db::Blob{id.raw()})
        .finish();
}

void drop_holders(db::Sqlite& db, std::string_view key) {
    db::Query(db, "DELETE FROM dlock_holders WHERE key = ?1").bind(db::Blob{key}).finish();
}

const core::Holder* find(const std::vector<core::Holder>& holders, const GrantId& id) {
    const auto found =
        std::find_if(holders.begin(), holders.end(), [&](const core::Holder& one) { return one.id == id; });
    return found == holders.end() ? nullptr : &*found;
}

std::string owner_text(const Stored& stored, const core::Holder& holder) {
    return holder.owner ? to_json(*holder.owner) : std::string(owner_of(stored, holder.id));
}

/// Who stands in the lock's row: whoever stood there, else one that has no row yet.
const core::Holder* first_of(const Stored& stored) {
    for (const core::Holder& holder : stored.record.holders)
        if (stored.first && (holder.id == *stored.first || holder.id == core::held_off(*stored.first)))
            return &holder;
    for (const core::Holder& holder : stored.record.holders)
        if (find(stored.held, holder.id) == nullptr && owner_of(stored, holder.id).empty()) return &holder;
    return nullptr;
}

/// What changed of the others.
void save_others(db::Sqlite& db, std::string_view key, const Stored& stored, const core::Holder* first,
                 std::string_view boot) {
    const auto& now = stored.record.holders;
    for (const core::Holder& before : stored.held)
        if (before.id != stored.first && find(now, before.id) == nullptr) drop_holder(db, key, before.id);
    for (const core::Holder& holder : now) {
        const core::Holder* before = find(stored.held, holder.id);
        if (&holder == first || (before != nullptr && *before == holder && !stored.restamped)) continue;
        save_holder(db, key, holder, owner_text(stored, holder), boot);
    }
}

void save_lock(db::Sqlite& db, std::string_view key, const Stored& stored, Moment moment,
               std::string_view boot) {
    const core::Record& record = stored.record;
    const std::int64_t used = moment.wall - (moment.now - to_us(record.touched));
    const core::Holder* first = first_of(stored);
    const std::size_t others = record.holders.size() - (first != nullptr ? 1 : 0);
    // Whose lock was deleted by hand: they learn at their next renewal, and do not come back into this one.
    if (!stored.exists) drop_holders(db, key);
    if (first == nullptr)
        save_without(db, key, record, used, others);
    else
        save_with(db, key, record, used, others, *first, owner_text(stored, *first), boot);
    if (others > 0 || stored.others > 0) save_others(db, key, stored, first, boot);
}

/// A place is kept while the order of the table and the order of the record agree; from the first ticket that
/// stands elsewhere (at the tail again) it is a new one.
void save_ticket(db::Sqlite& db, std::string_view key, const core::Ticket& ticket, const Stored::Place& place,
                 std::string_view boot) {
    const std::string owner = ticket.owner ? to_json(*ticket.owner) : std::string();
    db::Query query(db, ticket.owner
                            ? "INSERT INTO dlock_tickets(key, place, ticket, expires, lease, boot, wake, "
                              "since, owner, mode) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) "
                              "ON CONFLICT DO UPDATE SET expires = ?4, lease = ?5, boot = ?6, wake = ?7, "
                              "owner = ?9"
                            : "UPDATE dlock_tickets SET expires = ?4, lease = ?5, boot = ?6 "
                              "WHERE key = ?1 AND place = ?2 AND ticket = ?3");
    query.bind(db::Blob{key}).bind(place.number).bind(db::Blob{ticket.id.raw()});
    query.bind(to_us(ticket.expires)).bind(to_us(place.lease)).bind(db::Blob{boot});
    if (ticket.owner)
        query.bind(ticket.wake)
            .bind(to_us(ticket.arrival))
            .bind(owner)
            .bind(static_cast<std::int64_t>(ticket.mode));
    query.finish();
}

void drop_place(db::Sqlite& db, std::string_view key, std::int64_t number) {
    db::Query(db, "DELETE FROM dlock_tickets WHERE key = ?1 AND place = ?2")
        .bind(db::Blob{key})
        .bind(number)
        .finish();
}

}  // namespace

Stored read_lock_row(const db::Query& row, Moment moment, std::string_view boot) {
    Stored stored;
    stored.exists = true;
    const std::int64_t kind = row.integer(0);
    if (kind < 0 || kind > static_cast<std::int64_t>(core::Kind::permits)) {
        stored.problem = "its kind is not known to this dlock";
        stored.newer = true;
        return stored;
    }
    stored.record.kind = static_cast<core::Kind>(kind);
    const std::int64_t fence = row.integer(1);
    if (fence < 0 || (fence == 0 && row.integer(13) == 0))
        stored.problem = "its fence is not a number above 0";
    stored.record.last_fence = static_cast<std::uint64_t>(fence);
    stored.tickets = row.integer(2);
    const std::int64_t unused_for = std::max<std::int64_t>(moment.wall - row.integer(3), 0);
    stored.record.touched = from_us(moment.now - unused_for);
    stored.record.permits = static_cast<std::uint32_t>(row.integer(12));
    stored.record.pinned = row.integer(13) != 0;
    stored.others = row.integer(16);
    if (row.integer(4) != 0) read_holder(row, stored, moment, boot);
    return stored;
}

Stored load(db::Sqlite& db, std::string_view key, Moment moment, std::string_view boot) {
    Stored stored;
    {
        db::Query lock(db, select_lock);
        lock.bind(db::Blob{key});
        if (lock.row()) stored = read_lock_row(lock, moment, boot);
    }
    if (stored.others != 0) read_others(db, key, stored, moment, boot);
    if (stored.tickets == 0 || !stored.problem.empty()) return stored;
    db::Query row(db,
                  "SELECT place, ticket, wake, since, expires, lease, boot, mode FROM dlock_tickets "
                  "WHERE key = ?1 ORDER BY place");
    row.bind(db::Blob{key});
    while (row.row()) read_ticket(row, stored, moment, boot);
    return stored;
}

void save(db::Sqlite& db, std::string_view key, const Stored& stored, Moment moment, std::string_view boot,
          TicketLease ticket_lease) {
    save_lock(db, key, stored, moment, boot);
    std::int64_t next = stored.places.empty() ? 1 : stored.places.back().number + 1;
    auto place = stored.places.begin();
    for (const core::Ticket& ticket : stored.record.tickets) {
        // What the record does not have here any more has left, or stands again at the tail.
        const auto found = std::find_if(place, stored.places.end(),
                                        [&](const Stored::Place& p) { return p.ticket == ticket.id; });
        const bool kept = found != stored.places.end();
        if (kept)
            for (; place != found; ++place) drop_place(db, key, place->number);
        Stored::Place now{.ticket = ticket.id,
                          .number = kept ? place->number : next++,
                          .lease = ticket.id == ticket_lease.mine ? ticket_lease.lease : milliseconds{},
                          .expires = ticket.expires};
        if (kept) {
            const bool changed =
                ticket.owner != nullptr || ticket.expires != place->expires || stored.restamped;
            if (now.lease == milliseconds{}) now.lease = place->lease;
            ++place;
            if (!changed) continue;
        }
        save_ticket(db, key, ticket, now, boot);
    }
    for (; place != stored.places.end(); ++place) drop_place(db, key, place->number);
}

void drop_all(db::Sqlite& db, std::string_view key) {
    drop_holders(db, key);
    db::Query(db, "DELETE FROM dlock_tickets WHERE key = ?1").bind(db::Blob{key}).finish();
    db::Query(db, "DELETE FROM dlock_locks WHERE key = ?1").bind(db::Blob{key}).finish();
}

std::string_view owner_of(const Stored& stored, const GrantId& id) {
    for (std::size_t i = 0; i < stored.held.size(); ++i)
        if (stored.held[i].id == id || core::held_off(stored.held[i].id) == id) return stored.owners[i];
    return {};
}

namespace {

HolderInfo describe(const Stored& stored, const core::Holder& holder, Moment moment) {
    HolderInfo info;
    info.public_id = core::public_id(holder.id);
    info.mode = core::to_string(holder.mode);
    info.held_off = holder.lease == milliseconds(0);
    info.owner = holder.owner ? *holder.owner : owner_from_json(owner_of(stored, holder.id));
    info.fence = holder.fence;
    info.held_for = std::chrono::floor<milliseconds>(from_us(moment.now) - holder.since);
    info.expires_in = std::chrono::ceil<milliseconds>(holder.expires - from_us(moment.now));
    info.since = std::chrono::system_clock::time_point(std::chrono::microseconds(holder.wall_us));
    return info;
}

}  // namespace

std::vector<HolderInfo> holder_infos(const Stored& stored, Moment moment) {
    std::vector<HolderInfo> infos;
    for (const core::Holder& holder : stored.record.holders)
        if (from_us(moment.now) < holder.expires) infos.push_back(describe(stored, holder, moment));
    return infos;
}

std::optional<HolderInfo> holder_info(const Stored& stored, Moment moment) {
    const core::Holder* holder = core::live_holder(stored.record, from_us(moment.now));
    return holder != nullptr ? std::optional(describe(stored, *holder, moment)) : std::nullopt;
}

}  // namespace dlock::store::sqlite
