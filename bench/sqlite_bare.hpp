// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sqlite3.h>

/// The bare store: prepared statements on one connection, nothing else.
namespace bench {

/// The statements of one uncontended acquire and release of a known key, exactly as dlock runs them: recorded
/// by SQLite's own trace while dlock does one pair.
class PairStatements {
public:
    static PairStatements record(const std::string& url);
    /// Keys of one length, so that one can stand for another inside a statement.
    static std::string key(int number);

    [[nodiscard]] std::vector<std::string> acquire(const std::string& key) const;
    [[nodiscard]] std::vector<std::string> release(const std::string& key) const;

private:
    std::vector<std::string> acquire_;
    std::vector<std::string> release_;
};

struct CloseDatabase {
    void operator()(sqlite3* database) const noexcept { sqlite3_close_v2(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

void copy_database(const std::string& from, const std::string& to);

/// Runs the recorded statements for one key: WAL, synchronous=NORMAL, SQLite's own busy handler.
class BarePair {
public:
    BarePair(const std::string& file, const PairStatements& statements, const std::string& key);
    void acquire();
    void release();

private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
    };
    using Statements = std::vector<std::unique_ptr<sqlite3_stmt, Finalize>>;

    Statements prepare(const std::vector<std::string>& texts);
    void run(const Statements& statements);

    Database database_;
    Statements acquire_;
    Statements release_;
};

}  // namespace bench
