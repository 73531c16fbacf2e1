// SPDX-License-Identifier: Apache-2.0
#include "db/sqlite.hpp"

#include <cerrno>

#include <unistd.h>

namespace dlock::db {
namespace {

int primary(int code) noexcept { return code & 0xff; }

int keep_frames(void* frames, sqlite3*, const char*, int count) {
    *static_cast<int*>(frames) = count;
    return SQLITE_OK;
}

Error not_writable(const std::string& path) {
    if (access(path.c_str(), W_OK) != 0 && errno == EROFS)
        return {errc::unavailable, path + " is on a file system that is mounted read-only", Fault::fatal};
    return {errc::unauthorized, "no right to write " + path + " or its folder; check owner and mode (ls -l)"};
}

Error not_opened(const std::string& path, const SqliteFailure& failure) {
    if (failure.os_error == EACCES || failure.os_error == EPERM)
        return {errc::unauthorized, "no right to open " + path + "; check owner and mode (ls -l)"};
    const std::string why =
        failure.os_error != 0 ? std::generic_category().message(failure.os_error) : failure.text;
    return {errc::unavailable, "cannot open " + path + ": " + why};
}

}  // namespace

bool SqliteFailure::busy() const noexcept {
    const int kind = primary(code);
    return kind == SQLITE_BUSY || kind == SQLITE_LOCKED || kind == SQLITE_PROTOCOL;
}

bool SqliteFailure::no_space() const noexcept {
    // SQLite gives SQLITE_FULL for ENOSPC only, and keeps no errno of other failed writes (quota, size
    // limit).
    return primary(code) == SQLITE_FULL || code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE;
}

Error SqliteFailure::describe(const std::string& path) const {
    if (busy()) return {errc::unavailable, "another process keeps " + path + " locked", Fault::retry};
    if (no_space())
        return {errc::unavailable,
                "cannot write " + path + ": no space left (or a quota, or a failing disk); free some",
                Fault::retry};
    switch (primary(code)) {
        case SQLITE_NOTADB:
            return {errc::foreign_record,
                    path + " is not an SQLite database; move it away or name another file"};
        case SQLITE_CORRUPT:
            return {errc::store_error, path + " is damaged (" + text + "); move it away, a new one is made"};
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_AUTH:
            return not_writable(path);
        case SQLITE_CANTOPEN:
            return not_opened(path, *this);
        case SQLITE_IOERR:
            return {errc::unavailable,
                    path + ": " + text + " (" + std::generic_category().message(os_error) + ")",
                    Fault::retry};
        default:
            break;
    }
    if (text.starts_with("no such table") || text.starts_with("no such column"))
        return {errc::not_initialised, path + " lacks what dlock made in it (" + text + "); move it away"};
    return {errc::store_error, path + ": " + text};
}

Sqlite::Sqlite(const std::string& path) {
    sqlite3* handle = nullptr;
    const int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    const int code = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
    handle_.reset(handle);
    if (code != SQLITE_OK) {
        fail(code);
        return;
    }
    sqlite3_busy_timeout(handle, 0);
    // The file may come from anybody who can write it: nothing in it shall run.
    for (const int option :
         {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_TRUSTED_SCHEMA})
        sqlite3_db_config(handle, option, 0, nullptr);
    sqlite3_wal_hook(handle, &keep_frames, wal_frames_.get());
}

void Sqlite::fail(int code) {
    if (failed()) return;
    failure_.code = code;
    failure_.os_error = handle_ ? sqlite3_system_errno(handle_.get()) : ENOMEM;
    failure_.text = handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code);
}

bool Sqlite::execute(const char* sql) {
    if (failed()) return false;
    const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) fail(code);
    return code == SQLITE_OK;
}

std::int64_t Sqlite::number(const char* sql) {
    Query query(*this, sql);
    return query.row() ? query.integer(0) : 0;
}

bool Sqlite::read_only() const noexcept { return sqlite3_db_readonly(handle_.get(), "main") == 1; }

void Sqlite::checkpoint(Writers writers) noexcept {
    const int mode = writers == Writers::go_on ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_FULL;
    sqlite3_wal_checkpoint_v2(handle_.get(), "main", mode, nullptr, nullptr);
}

void Sqlite::at_close(AtClose what) noexcept {
    const int leave = what == AtClose::leave ? 1 : 0;
    sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, leave, nullptr);
}

sqlite3_stmt* Sqlite::prepared(const char* sql) {
    if (failed()) return nullptr;
    for (const auto& [text, statement] : statements_)
        if (text == sql) return statement.get();
    sqlite3_stmt* statement = nullptr;
    const int code =
        sqlite3_prepare_v3(handle_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) fail(code);
    if (statement != nullptr) statements_.emplace_back(sql, Statement(statement));
    return statement;
}

Query& Query::bind(std::int64_t value) {
    bound(sqlite3_bind_int64(statement_, next_++, value));
    return *this;
}

Query& Query::bind(Blob value) {
    bound(sqlite3_bind_blob64(statement_, next_++, value.bytes.data(), value.bytes.size(), SQLITE_STATIC));
    return *this;
}

Query& Query::bind(std::string_view text) {
    bound(sqlite3_bind_text64(statement_, next_++, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
    return *this;
}

Query& Query::bind_null() {
    bound(sqlite3_bind_null(statement_, next_++));
    return *this;
}

void Query::bound(int code) {
    if (code != SQLITE_OK) database_.fail(code);
}

bool Query::row() {
    if (database_.failed()) return false;
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) database_.fail(code);
    return false;
}

bool Query::finish() {
    while (row()) {
    }
    return !database_.failed();
}

std::string_view Query::bytes(int column) const {
    const void* data = sqlite3_column_blob(statement_, column);
    const int size = sqlite3_column_bytes(statement_, column);
    return data == nullptr ? std::string_view{}
                           : std::string_view(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

Transaction::Transaction(Sqlite& database, Kind kind)
    : database_(database), inner_(database.in_transaction()) {
    const char* whole = kind == Kind::writes ? "BEGIN IMMEDIATE" : "BEGIN";
    Query(database, inner_ ? "SAVEPOINT part" : whole).finish();
}

void Transaction::commit() { over_ = Query(database_, inner_ ? "RELEASE part" : "COMMIT").finish(); }

Transaction::~Transaction() {
    // Direct, since a failure that sticks must not keep the transaction open.
    if (!over_ && database_.in_transaction())
        sqlite3_exec(database_.handle_.get(), inner_ ? "ROLLBACK TO part; RELEASE part" : "ROLLBACK", nullptr,
                     nullptr, nullptr);
}

}  // namespace dlock::db
