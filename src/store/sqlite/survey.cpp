// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/survey.hpp"

#include <charconv>
#include <ctime>
#include <deque>

#include <fnmatch.h>

#include "store/sqlite/inspect.hpp"
#include "store/sqlite/schema.hpp"

namespace dlock::store::sqlite {
namespace {

using Sure = FoundLock::Sure;

constexpr std::int64_t rows_a_table = 10'000;
constexpr std::size_t own_a_page = 1000;

bool matches(const std::string& name, const ScanRequest& request) {
    return request.match.empty() || fnmatch(request.match.c_str(), name.c_str(), 0) == 0;
}

std::string describe(const Owner& owner) {
    std::string text = owner.service;
    if (!owner.host.empty()) text += (text.empty() ? "" : "@") + owner.host;
    if (owner.pid != 0) text += " (pid " + std::to_string(owner.pid) + ")";
    return text;
}

FoundLock own(const LockInfo& info) {
    FoundLock found;
    found.name = info.key.bytes();
    found.layout = "dlock";
    found.sure = Sure::certain;
    found.how = "dlock's own record";
    found.held = !info.holders.empty();
    found.waiters = info.waiter_count;
    if (!info.problem.empty()) found.flags.push_back(info.problem);
    if (!found.held) return found;
    const HolderInfo& holder = info.holders.front();
    found.holder = describe(holder.owner);
    found.held_for = holder.held_for;
    found.expires_in = holder.expires_in;
    if (found.holder.empty()) found.flags.emplace_back("no owner recorded");
    return found;
}

Result<ScanPage> own_page(Connection& connection, const Shared& shared, const ScanRequest& request,
                          TimePoint deadline) {
    InspectRequest ask;
    ask.filter.held_only = false;
    ask.filter.limit = own_a_page;
    ask.filter.cursor = request.cursor;
    auto listed = inspect(connection, shared, ask, deadline);
    if (!listed) return std::move(listed).error();
    ScanPage page;
    page.looked_at = listed->locks.size();
    page.next = listed->next;
    for (const LockInfo& info : listed->locks)
        if (matches(info.key.bytes(), request)) page.locks.push_back(own(info));
    return page;
}

/// A table's name as SQL.
std::string quoted(std::string_view name) {
    std::string text = "\"";
    for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
    return text + "\"";
}

/// Another program's database. The handle knows statements by the address of their text, so texts stay.
struct Others {
    db::Sqlite db;
    std::deque<std::string> texts;
    const char* keep(std::string sql) { return texts.emplace_back(std::move(sql)).c_str(); }
};

/// The tables that have all these columns. `columns` is an SQL list, `count` its length.
std::vector<std::string> tables_with(Others& others, const std::string& columns, int count) {
    const std::string sql =
        "SELECT m.name FROM sqlite_schema m WHERE m.type = 'table' AND (SELECT count(*) FROM "
        "pragma_table_info(m.name) WHERE lower(name) IN (" +
        columns + ")) = " + std::to_string(count);
    std::vector<std::string> names;
    db::Query query(others.db, others.keep(sql));
    while (query.row()) names.emplace_back(query.bytes(0));
    return names;
}

/// Times are text ("2026-01-31 12:00:00.123", UTC) or numbers of milliseconds, by the driver; SQLite makes
/// seconds of both. NULL where it cannot.
std::string seconds_of(const std::string& column) {
    return "CASE typeof(" + column + ") WHEN 'integer' THEN " + column + " / 1000.0 ELSE " +
           "(julianday(replace(replace(" + column + ", 'T', ' '), 'Z', '')) - 2440587.5) * 86400 END";
}

std::int64_t now_ms() {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
}

/// What the two kinds of table have in common: name, holder, since and until in milliseconds.
struct Form {
    const char* layout;
    const char* how;
    std::string sql;  ///< columns name, holder, since ms, until ms or NULL; a LIMIT is ?1
};

void read_table(Others& others, const std::string& table, const Form& form, const ScanRequest& request,
                ScanPage& page) {
    db::Query query(others.db, others.keep(form.sql));
    query.bind(rows_a_table);
    const std::int64_t now = now_ms();
    while (query.row()) {
        ++page.looked_at;
        FoundLock found;
        found.name = table + "/" + std::string(query.bytes(0));
        if (!matches(found.name, request)) continue;
        found.layout = form.layout;
        found.sure = Sure::likely;
        found.how = form.how;
        const bool ends = !query.null(3);
        found.held = !ends || query.integer(3) > now;
        if (found.held) {
            found.holder = query.bytes(1);
            if (!query.null(2)) found.held_for = milliseconds(now - query.integer(2));
            if (ends)
                found.expires_in = milliseconds(query.integer(3) - now);
            else
                found.flags.emplace_back("no expiry in the record: the registry's own setting decides");
            if (found.holder.empty()) found.flags.emplace_back("no owner recorded");
        }
        page.locks.push_back(std::move(found));
    }
}

std::string in_ms(const std::string& column) {
    return "CAST((" + seconds_of(column) + ") * 1000 AS INTEGER)";
}

Form shedlock(const std::string& table) {
    return {"shedlock", "a table with ShedLock's columns",
            "SELECT name, locked_by, " + in_ms("locked_at") + ", " + in_ms("lock_until") + " FROM " +
                quoted(table) + " LIMIT ?1"};
}

/// With the later column EXPIRED_AFTER where the table has it.
Form spring(Others& others, const std::string& table) {
    const auto newer = tables_with(others, "'lock_key', 'region', 'client_id', 'expired_after'", 4);
    bool ends = false;
    for (const std::string& each : newer) ends = ends || each == table;
    const std::string until = ends ? in_ms("expired_after") : std::string("NULL");
    const std::string since = ends ? std::string("NULL") : in_ms("created_date");
    return {"spring", "a table with the columns of Spring's JdbcLockRegistry",
            "SELECT region || '/' || lock_key, client_id, " + since + ", " + until + " FROM " +
                quoted(table) + " LIMIT ?1"};
}

/// Of other programs' tables; all in one page, bounded a table.
Result<ScanPage> foreign(Others& others, const std::string& path, const ScanRequest& request) {
    ScanPage page;
    for (const auto& table : tables_with(others, "'name', 'lock_until', 'locked_at', 'locked_by'", 4))
        read_table(others, table, shedlock(table), request, page);
    for (const auto& table : tables_with(others, "'lock_key', 'region', 'client_id'", 3))
        read_table(others, table, spring(others, table), request, page);
    if (others.db.failed()) return others.db.failure().describe(path);
    return page;
}

}  // namespace

Result<ScanPage> survey(Connection& connection, const Shared& shared, const ScanRequest& request,
                        TimePoint deadline) {
    const auto path = shared.location.resolve();
    if (!path) return path.error();
    if (shared.location.file().inode == 0) return ScanPage{};
    if (!request.cursor.empty()) return own_page(connection, shared, request, deadline);
    ScanPage first;
    bool ours = false;
    {
        Others others{.db = db::Sqlite(*path), .texts = {}};
        others.db.execute("PRAGMA query_only = ON");
        // Another program's log is left to its own programs.
        if (!others.db.failed()) others.db.at_close(db::Sqlite::AtClose::leave);
        ours = content(others.db) == Content::ours;
        auto read = foreign(others, *path, request);
        if (!read) return read;
        first = *std::move(read);
    }
    if (!ours) return first;
    auto page = own_page(connection, shared, request, deadline);
    if (!page) return page;
    page->looked_at += first.looked_at;
    std::move(first.locks.begin(), first.locks.end(), std::back_inserter(page->locks));
    return page;
}

}  // namespace dlock::store::sqlite
