// SPDX-License-Identifier: Apache-2.0
#include "sqlite_bare.hpp"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <regex>
#include <stdexcept>

#include "dlock/dlock.hpp"

namespace bench {

namespace {

const int recorded_number = 99;

/// Where the trace writes; a connection of dlock is made and used on threads of its own.
struct Recorder {
    std::mutex guard;
    std::vector<std::string>* target = nullptr;
};
Recorder recorder;

int on_statement(unsigned, void*, void* statement, void*) {
    char* text = sqlite3_expanded_sql(static_cast<sqlite3_stmt*>(statement));
    const std::lock_guard lock(recorder.guard);
    if (recorder.target && text) recorder.target->emplace_back(text);
    sqlite3_free(text);
    return 0;
}

int on_open(sqlite3* database, const char**, const void*) {
    sqlite3_trace_v2(database, SQLITE_TRACE_STMT, on_statement, nullptr);
    return SQLITE_OK;
}

void record_into(std::vector<std::string>* target) {
    const std::lock_guard lock(recorder.guard);
    recorder.target = target;
}

std::string hex_of(const std::string& bytes, const char* format) {
    std::string text;
    for (const char byte : bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, format, static_cast<unsigned>(static_cast<unsigned char>(byte)));
        text += digits;
    }
    return text;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
}

/// The recorded statements for another key, and with the time of day (16 digits: microseconds) as parameter
/// 1, since fences must rise.
std::vector<std::string> for_key(std::vector<std::string> texts, const std::string& key) {
    static const std::regex time_of_day(R"(\b\d{16}\b)");
    const std::string recorded = PairStatements::key(recorded_number);
    for (auto& text : texts) {
        text = std::regex_replace(text, time_of_day, "?1");
        replace_all(text, recorded, key);
        replace_all(text, hex_of(recorded, "%02x"), hex_of(key, "%02x"));
        replace_all(text, hex_of(recorded, "%02X"), hex_of(key, "%02X"));
    }
    return texts;
}

Database open_database(const std::string& file) {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open_v2(file.c_str(), &opened, SQLITE_OPEN_READWRITE, nullptr);
    Database database(opened);
    if (result != SQLITE_OK) throw std::runtime_error("cannot open " + file);
    return database;
}

void execute(sqlite3* database, const std::string& text) {
    if (sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
        throw std::runtime_error(text + ": " + sqlite3_errmsg(database));
}

}  // namespace

std::string PairStatements::key(int number) {
    char text[16];
    std::snprintf(text, sizeof text, "bench-key-%02d", number);
    return text;
}

PairStatements PairStatements::record(const std::string& url) {
    PairStatements statements;
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(on_open));
    {
        auto client = dlock::Client::open(url).value();
        auto mutex = client.mutex(dlock::Key{key(recorded_number)});
        for (int i = 0; i < 3; ++i) mutex.try_acquire().value().release().value();
        record_into(&statements.acquire_);
        auto lease = mutex.try_acquire().value();
        record_into(&statements.release_);
        lease.release().value();
        record_into(nullptr);
    }
    sqlite3_cancel_auto_extension(reinterpret_cast<void (*)()>(on_open));
    if (statements.acquire_.empty() || statements.release_.empty())
        throw std::runtime_error("dlock ran no statements for one pair");
    return statements;
}

std::vector<std::string> PairStatements::acquire(const std::string& key) const {
    return for_key(acquire_, key);
}
std::vector<std::string> PairStatements::release(const std::string& key) const {
    return for_key(release_, key);
}

void copy_database(const std::string& from, const std::string& to) {
    const Database database = open_database(from);
    execute(database.get(), "VACUUM INTO '" + to + "'");
    const Database copy = open_database(to);
    execute(copy.get(), "PRAGMA journal_mode=WAL");
}

BarePair::BarePair(const std::string& file, const PairStatements& statements, const std::string& key)
    : database_(open_database(file)) {
    execute(database_.get(), "PRAGMA synchronous=NORMAL");
    sqlite3_busy_timeout(database_.get(), 10'000);
    acquire_ = prepare(statements.acquire(key));
    release_ = prepare(statements.release(key));
}

void BarePair::acquire() { run(acquire_); }
void BarePair::release() { run(release_); }

BarePair::Statements BarePair::prepare(const std::vector<std::string>& texts) {
    Statements statements;
    for (const auto& text : texts) {
        sqlite3_stmt* statement = nullptr;
        if (sqlite3_prepare_v3(database_.get(), text.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement,
                               nullptr) != SQLITE_OK)
            throw std::runtime_error(text + ": " + sqlite3_errmsg(database_.get()));
        statements.emplace_back(statement);
    }
    return statements;
}

void BarePair::run(const Statements& statements) {
    const int before = sqlite3_total_changes(database_.get());
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    for (const auto& statement : statements) {
        if (sqlite3_bind_parameter_count(statement.get()) > 0)
            sqlite3_bind_int64(statement.get(), 1,
                               std::chrono::duration_cast<std::chrono::microseconds>(now).count());
        int result = SQLITE_ROW;
        while (result == SQLITE_ROW) result = sqlite3_step(statement.get());
        sqlite3_reset(statement.get());
        if (result != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(database_.get()));
    }
    if (sqlite3_total_changes(database_.get()) == before)
        throw std::runtime_error("the bare statements changed nothing");
}

}  // namespace bench
