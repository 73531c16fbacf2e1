// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/inspect.hpp"

#include <algorithm>

#include "store/owner_json.hpp"
#include "store/sqlite/rows.hpp"

namespace dlock::store::sqlite {
namespace {

constexpr std::int64_t shown_waiters = 100;
constexpr std::int64_t scanned_a_page = 100'000;  ///< rows; a page may be short, and then has a cursor

std::vector<WaiterInfo> waiters(db::Sqlite& db, std::string_view key, Moment moment, std::string_view boot) {
    std::vector<WaiterInfo> line;
    db::Query query(db,
                    "SELECT owner, since, expires, lease, boot = ?2, mode FROM dlock_tickets "
                    "WHERE key = ?1 AND (boot <> ?2 OR expires > ?3) ORDER BY place LIMIT ?4");
    query.bind(db::Blob{key}).bind(db::Blob{boot}).bind(moment.now).bind(shown_waiters);
    while (query.row()) {
        WaiterInfo waiter;
        waiter.owner = owner_from_json(query.bytes(0));
        waiter.mode = core::to_string(static_cast<core::Mode>(query.integer(5)));
        const bool measured = query.integer(4) != 0;
        const std::int64_t left = measured ? query.integer(2) - moment.now : query.integer(3);
        waiter.expires_in = std::chrono::ceil<milliseconds>(std::chrono::microseconds(left));
        if (measured)
            waiter.waited_for =
                std::chrono::floor<milliseconds>(std::chrono::microseconds(moment.now - query.integer(1)));
        line.push_back(std::move(waiter));
    }
    return line;
}

std::size_t count_waiters(db::Sqlite& db, std::string_view key, Moment moment, std::string_view boot) {
    db::Query query(db, "SELECT count(*) FROM dlock_tickets WHERE key = ?1 AND (boot <> ?2 OR expires > ?3)");
    query.bind(db::Blob{key}).bind(db::Blob{boot}).bind(moment.now);
    return query.row() ? static_cast<std::size_t>(query.integer(0)) : 0;
}

/// The row that the query stands on.
LockInfo lock_info(db::Sqlite& db, const db::Query& row, Moment moment, std::string_view boot) {
    LockInfo info;
    info.key = Key(std::string(row.bytes(key_column)));
    Stored stored = read_lock_row(row, moment, boot);
    if (stored.others > 0) stored = load(db, info.key.bytes(), moment, boot);
    info.problem = stored.problem;
    if (!stored.newer) info.kind = core::to_string(stored.record.kind);
    if (stored.record.last_fence != 0) info.last_fence = Fence{stored.record.last_fence};
    if (stored.record.kind == core::Kind::permits) info.permits = stored.record.permits;
    info.holders = holder_infos(stored, moment);
    for (HolderInfo& holder : info.holders)
        if (stored.restamped) holder.held_for.reset();
    if (stored.tickets > 0) info.waiter_count = count_waiters(db, info.key.bytes(), moment, boot);
    return info;
}

bool wanted(const LockInfo& info, const Filter& filter) {
    return !filter.held_only || !info.holders.empty() || info.waiter_count > 0 || !info.problem.empty();
}

Page one_key(db::Sqlite& db, const Shared& shared, const Key& key) {
    const Moment moment = Moment::of(shared.loop);
    db::Query query(db, select_lock);
    query.bind(db::Blob{key.bytes()});
    Page page;
    if (!query.row()) return page;
    LockInfo& info = page.locks.emplace_back(lock_info(db, query, moment, shared.boot));
    if (info.waiter_count > 0) info.waiters = waiters(db, key.bytes(), moment, shared.boot);
    return page;
}

/// Of the keys behind `after`.
Page one_page(db::Sqlite& db, const Shared& shared, const Filter& filter, const std::string& after) {
    const Moment moment = Moment::of(shared.loop);
    const std::size_t limit = std::clamp<std::size_t>(filter.limit, 1, 10'000);
    db::Query query(db, select_locks);
    query.bind(db::Blob{after}).bind(db::Blob{filter.prefix}).bind(scanned_a_page);
    Page page;
    std::int64_t scanned = 0;
    while (query.row() && query.bytes(key_column).starts_with(filter.prefix)) {
        LockInfo info = lock_info(db, query, moment, shared.boot);
        const bool shown = wanted(info, filter);
        if (shown && page.locks.size() == limit) {
            page.next = page.locks.back().key.text();
            break;
        }
        if (++scanned == scanned_a_page) page.next = info.key.text();
        if (shown) page.locks.push_back(std::move(info));
    }
    return page;
}

}  // namespace

Result<Page> inspect(Connection& connection, const Shared& shared, const InspectRequest& request,
                     TimePoint deadline) {
    std::string after;
    if (!request.only && !request.filter.cursor.empty()) {
        auto cursor = Key::parse(request.filter.cursor);
        if (!cursor) return Error(errc::invalid_argument, "cursor: not one that a page before gave");
        after = cursor->bytes();
    }
    if (shared.location.file().inode == 0) {
        // Looking makes no file; but a folder that is missing is a mistake in the URL.
        if (auto path = shared.location.resolve(); !path) return std::move(path).error();
        return Page{};
    }
    return connection.read(deadline, [&](db::Sqlite& db) {
        return request.only ? one_key(db, shared, *request.only)
                            : one_page(db, shared, request.filter, after);
    });
}

}  // namespace dlock::store::sqlite
