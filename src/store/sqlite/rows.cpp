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

void read_holder(const db::Query& row, Stored& stored, Moment moment, std::string_view boot) {
    const auto id = to_id<GrantId>(row.bytes(5));
    if (!id || row.null(9) || row.null(10) || row.integer(10) <= 0) {
        stored.problem = "the holder's columns do not make sense";
        return;
    }
    core::Holder holder{.id = *id, .fence = Fence{stored.record.last_fence}};
    holder.since = from_us(row.integer(7));
    holder.wall_us = static_cast<std::uint64_t>(std::max<std::int64_t>(row.integer(8), 0));
    holder.expires = from_us(row.integer(9));
    holder.lease = ms_from_us(row.integer(10));
    if (row.bytes(11) != boot) {
        holder.expires = from_us(moment.now) + holder.lease;
        holder.since = from_us(moment.now);
        stored.restamped = true;
    }
    stored.owner = row.bytes(6);
    stored.record.holders.push_back(std::move(holder));
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
                                                 .owner = nullptr,
                                                 .arrival = from_us(row.integer(3)),
                                                 .expires = expires,
                                                 .wake = std::string(row.bytes(2))});
}

void save_free(db::Sqlite& db, std::string_view key, const core::Record& record, std::int64_t used) {
    db::Query query(
        db,
        "UPDATE dlock_locks SET version = version + 1, held = 0, kind = ?2, fence = ?3, tickets = ?4, "
        "used = ?5 WHERE key = ?1");
    query.bind(db::Blob{key}).bind(static_cast<std::int64_t>(record.kind));
    query.bind(static_cast<std::int64_t>(record.last_fence));
    query.bind(static_cast<std::int64_t>(record.tickets.size())).bind(used).finish();
}

void save_held(db::Sqlite& db, std::string_view key, const core::Record& record, std::int64_t used,
               std::string_view owner, std::string_view boot) {
    const core::Holder& holder = record.holders.front();
    db::Query query(
        db,
        "INSERT INTO dlock_locks(key, kind, fence, tickets, used, holder, owner, since, wall, expires, "
        "lease, boot, held, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 1, 1) "
        "ON CONFLICT (key) DO UPDATE SET version = version + 1, held = 1, kind = ?2, fence = ?3, "
        "tickets = ?4, used = ?5, holder = ?6, owner = ?7, since = ?8, wall = ?9, expires = ?10, "
        "lease = ?11, boot = ?12");
    query.bind(db::Blob{key}).bind(static_cast<std::int64_t>(record.kind));
    query.bind(static_cast<std::int64_t>(record.last_fence));
    query.bind(static_cast<std::int64_t>(record.tickets.size())).bind(used);
    query.bind(db::Blob{holder.id.raw()}).bind(owner);
    query.bind(to_us(holder.since)).bind(static_cast<std::int64_t>(holder.wall_us));
    query.bind(to_us(holder.expires)).bind(to_us(holder.lease)).bind(db::Blob{boot}).finish();
}

void save_lock(db::Sqlite& db, std::string_view key, const Stored& stored, Moment moment,
               std::string_view boot) {
    const core::Record& record = stored.record;
    const std::int64_t used = moment.wall - (moment.now - to_us(record.touched));
    if (record.holders.empty()) return save_free(db, key, record, used);
    const auto& owner = record.holders.front().owner;
    save_held(db, key, record, used, owner ? to_json(*owner) : stored.owner, boot);
}

/// A place is kept while the order of the table and the order of the record agree; from the first ticket that
/// stands elsewhere (at the tail again) it is a new one.
void save_ticket(db::Sqlite& db, std::string_view key, const core::Ticket& ticket, const Stored::Place& place,
                 std::string_view boot) {
    const std::string owner = ticket.owner ? to_json(*ticket.owner) : std::string();
    db::Query query(db, ticket.owner
                            ? "INSERT INTO dlock_tickets(key, place, ticket, expires, lease, boot, wake, "
                              "since, owner) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) "
                              "ON CONFLICT DO UPDATE SET expires = ?4, lease = ?5, boot = ?6, wake = ?7, "
                              "owner = ?9"
                            : "UPDATE dlock_tickets SET expires = ?4, lease = ?5, boot = ?6 "
                              "WHERE key = ?1 AND place = ?2 AND ticket = ?3");
    query.bind(db::Blob{key}).bind(place.number).bind(db::Blob{ticket.id.raw()});
    query.bind(to_us(ticket.expires)).bind(to_us(place.lease)).bind(db::Blob{boot});
    if (ticket.owner) query.bind(ticket.wake).bind(to_us(ticket.arrival)).bind(owner);
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
    if (fence <= 0) stored.problem = "its fence is not a number above 0";
    stored.record.last_fence = static_cast<std::uint64_t>(fence);
    stored.tickets = row.integer(2);
    const std::int64_t unused_for = std::max<std::int64_t>(moment.wall - row.integer(3), 0);
    stored.record.touched = from_us(moment.now - unused_for);
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
    if (stored.tickets == 0 || !stored.problem.empty()) return stored;
    db::Query row(db,
                  "SELECT place, ticket, wake, since, expires, lease, boot FROM dlock_tickets WHERE key = ?1 "
                  "ORDER BY place");
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

std::optional<HolderInfo> holder_info(const Stored& stored, Moment moment) {
    const core::Holder* holder = core::live_holder(stored.record, from_us(moment.now));
    if (holder == nullptr) return std::nullopt;
    HolderInfo info;
    info.public_id = core::public_id(holder->id);
    info.owner = holder->owner ? *holder->owner : owner_from_json(stored.owner);
    info.fence = holder->fence;
    info.held_for = std::chrono::floor<milliseconds>(from_us(moment.now) - holder->since);
    info.expires_in = std::chrono::ceil<milliseconds>(holder->expires - from_us(moment.now));
    info.since = std::chrono::system_clock::time_point(std::chrono::microseconds(holder->wall_us));
    return info;
}

}  // namespace dlock::store::sqlite
