// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sqlite3.h>

#include "dlock/error.hpp"

/// A thin handle on SQLite. Failures stick to the handle: after the first one, statements do nothing and
/// return no row, so that a sequence is written straight down and asked once at its end whether it worked.
namespace dlock::db {

struct SqliteFailure {
    int code = SQLITE_OK;  ///< extended result code
    int os_error = 0;
    std::string text;

    /// Another connection has the lock; the same again may work in a moment.
    [[nodiscard]] bool busy() const noexcept;
    /// The disk is full, as far as can be told.
    [[nodiscard]] bool no_space() const noexcept;
    /// For people, with the file's name and what to do about it.
    [[nodiscard]] Error describe(const std::string& path) const;
};

/// One connection with its prepared statements. One thread at a time.
class Sqlite {
public:
    Sqlite() = default;
    /// Opens a file that exists; `failed()` when that did not work. Never waits for locks, runs no trigger
    /// and no view of the file, leaves checkpoints to its user.
    explicit Sqlite(const std::string& path);

    [[nodiscard]] bool failed() const noexcept { return failure_.code != SQLITE_OK; }
    [[nodiscard]] const SqliteFailure& failure() const noexcept { return failure_; }
    void forgive() { failure_ = {}; }

    /// Any number of statements without results.
    bool execute(const char* sql);
    /// The first column of the first row; 0 without one.
    std::int64_t number(const char* sql);

    [[nodiscard]] bool read_only() const noexcept;
    [[nodiscard]] int changes() const noexcept { return sqlite3_changes(handle_.get()); }
    /// Frames in the write-ahead log after this connection's last commit.
    [[nodiscard]] int wal_frames() const noexcept { return *wal_frames_; }
    /// Copies what nobody reads any more from the log into the database file. Failures do not stick.
    enum class Writers { go_on, locked_out };
    void checkpoint(Writers writers) noexcept;
    /// Whether the last connection of all copies the log when it closes (the default), or leaves it.
    enum class AtClose { checkpoint, leave };
    void at_close(AtClose what) noexcept;

private:
    friend class Query;
    friend class Transaction;

    struct Close {
        void operator()(sqlite3* handle) const noexcept { sqlite3_close(handle); }
    };
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
    };
    using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

    sqlite3_stmt* prepared(const char* sql);
    void fail(int code);
    [[nodiscard]] bool in_transaction() const noexcept {
        return handle_ && sqlite3_get_autocommit(handle_.get()) == 0;
    }

    std::unique_ptr<int> wal_frames_ = std::make_unique<int>(0);
    std::unique_ptr<sqlite3, Close> handle_;
    std::vector<std::pair<const char*, Statement>> statements_;  ///< by the address of their text
    SqliteFailure failure_;
};

struct Blob {
    std::string_view bytes;
};

/// One run of a statement that the handle keeps prepared; `sql` must be a literal. Values are bound from ?1
/// on and must live as long as the Query.
class Query {
public:
    Query(Sqlite& database, const char* sql) : database_(database), statement_(database.prepared(sql)) {}
    Query(const Query&) = delete;
    Query& operator=(const Query&) = delete;
    ~Query() { sqlite3_reset(statement_); }

    Query& bind(std::int64_t value);
    Query& bind(Blob value);
    Query& bind(std::string_view text);
    Query& bind_null();

    /// The next row. False at the end and on failure.
    bool row();
    /// To the end, past any rows; a statement that writes has done so only then. False on failure.
    bool finish();

    [[nodiscard]] std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
    /// Text or blob; valid until the next row.
    [[nodiscard]] std::string_view bytes(int column) const;
    [[nodiscard]] bool null(int column) const {
        return sqlite3_column_type(statement_, column) == SQLITE_NULL;
    }

private:
    void bound(int code);

    Sqlite& database_;
    sqlite3_stmt* statement_;
    int next_ = 1;
};

/// BEGIN ... COMMIT; rolled back unless committed. One that writes has the write lock from its beginning; one
/// that reads sees one state throughout. Inside another it is a part of that (a savepoint): what it commits
/// is written with the whole, and when it is rolled back, the whole goes on.
class Transaction {
public:
    enum class Kind { writes, reads };
    explicit Transaction(Sqlite& database, Kind kind = Kind::writes);
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    ~Transaction();

    void commit();

private:
    Sqlite& database_;
    const bool inner_;
    bool over_ = false;
};

}  // namespace dlock::db
