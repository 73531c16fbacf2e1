// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/schema.hpp"

namespace dlock::store::sqlite {
namespace {

// application_id and user_version repeat the constants of the header.
constexpr const char* tables = R"(
CREATE TABLE dlock_meta(
    id INTEGER PRIMARY KEY CHECK (id = 1),
    layout INTEGER NOT NULL,
    floor INTEGER NOT NULL
) STRICT;
INSERT INTO dlock_meta VALUES (1, 1, 0);
CREATE TABLE dlock_locks(
    key BLOB NOT NULL PRIMARY KEY,
    kind INTEGER NOT NULL,
    version INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    held INTEGER NOT NULL,
    holder BLOB,
    mode INTEGER,
    holder_fence INTEGER,
    owner TEXT,
    since INTEGER,
    wall INTEGER,
    expires INTEGER,
    lease INTEGER,
    boot BLOB,
    tickets INTEGER NOT NULL,
    used INTEGER NOT NULL,
    others INTEGER NOT NULL DEFAULT 0,
    permits INTEGER NOT NULL DEFAULT 0,
    pinned INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE dlock_holders(
    key BLOB NOT NULL,
    holder BLOB NOT NULL,
    mode INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    owner TEXT NOT NULL,
    since INTEGER NOT NULL,
    wall INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    boot BLOB NOT NULL,
    PRIMARY KEY (key, holder)
) STRICT, WITHOUT ROWID;
CREATE TABLE dlock_done(
    key BLOB NOT NULL PRIMARY KEY,
    result BLOB NOT NULL,
    owner TEXT NOT NULL,
    wall INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE dlock_tickets(
    key BLOB NOT NULL,
    place INTEGER NOT NULL,
    ticket BLOB NOT NULL,
    mode INTEGER NOT NULL,
    owner TEXT NOT NULL,
    wake TEXT NOT NULL,
    since INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    boot BLOB NOT NULL,
    PRIMARY KEY (key, place)
) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1684824939;
PRAGMA user_version = 1;
)";
static_assert(application_id == 1684824939 && layout_version == 1);

}  // namespace

Content content(db::Sqlite& database) {
    const std::int64_t id = database.number("PRAGMA application_id");
    const std::int64_t version = database.number("PRAGMA user_version");
    const std::int64_t objects = database.number("SELECT count(*) FROM sqlite_schema");
    const std::int64_t ours = database.number(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN "
        "('dlock_locks', 'dlock_holders', 'dlock_tickets', 'dlock_done', 'dlock_meta')");
    if (id == 0 && version == 0 && objects == 0) return Content::empty;
    if (id != application_id) return Content::foreign;
    if (version > layout_version) return Content::newer;
    return ours == 5 && version == layout_version ? Content::ours : Content::broken;
}

void initialise(db::Sqlite& database) {
    db::Transaction transaction(database);
    if (content(database) != Content::empty || !database.execute(tables)) return;
    transaction.commit();
}

Error refusal(Content content, const std::string& path) {
    switch (content) {
        case Content::newer:
            return {errc::foreign_record,
                    path + " was made by a newer dlock; update this one, or name another file"};
        case Content::broken:
            return {errc::not_initialised,
                    path + " lacks tables that dlock made in it; move it away, and a new one is made"};
        default:
            return {errc::foreign_record, path + " is the database of another program; name another file"};
    }
}

}  // namespace dlock::store::sqlite
