// SPDX-License-Identifier: Apache-2.0
/// A holder is stopped past its lease, in the middle of its work, and goes on later. The table refuses its
/// write, since it has seen a higher fence.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include <dlock/dlock.hpp>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

/// The protected resource: a database that has nothing to do with the store of the locks.
class Accounts {
public:
    explicit Accounts(const std::string& file) {
        sqlite3* opened = nullptr;
        const int code = sqlite3_open(file.c_str(), &opened);
        db_.reset(opened);
        check(code);
        sqlite3_busy_timeout(opened, 5000);
    }

    void create() {
        check(sqlite3_exec(db_.get(),
                           "CREATE TABLE accounts(id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER);"
                           "INSERT INTO accounts VALUES (17, 100, 0)",
                           nullptr, nullptr, nullptr));
    }

    /// False: refused, since somebody with a later grant has written already.
    bool write(std::int64_t balance, dlock::Fence fence) {
        auto update = prepare(R"sql(
UPDATE accounts SET balance = :balance, fence = :fence WHERE id = :id AND fence <= :fence
)sql");
        bind(update.get(), ":balance", balance);
        bind(update.get(), ":fence", static_cast<std::int64_t>(fence.value));
        bind(update.get(), ":id", 17);
        if (sqlite3_step(update.get()) != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(db_.get()));
        return sqlite3_changes(db_.get()) == 1;
    }

    std::int64_t balance() {
        auto query = prepare("SELECT balance FROM accounts WHERE id = 17");
        if (sqlite3_step(query.get()) != SQLITE_ROW) throw std::runtime_error(sqlite3_errmsg(db_.get()));
        return sqlite3_column_int64(query.get(), 0);
    }

private:
    struct Close {
        void operator()(sqlite3* db) const noexcept { sqlite3_close(db); }
        void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
    };
    using Statement = std::unique_ptr<sqlite3_stmt, Close>;

    void check(int code) const {
        if (code != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(db_.get()));
    }
    Statement prepare(const char* sql) {
        sqlite3_stmt* made = nullptr;
        check(sqlite3_prepare_v2(db_.get(), sql, -1, &made, nullptr));
        return Statement(made);
    }
    void bind(sqlite3_stmt* statement, const char* name, std::int64_t value) const {
        check(sqlite3_bind_int64(statement, sqlite3_bind_parameter_index(statement, name), value));
    }

    std::unique_ptr<sqlite3, Close> db_;
};

unsigned long long number(dlock::Fence fence) { return fence.value; }

const dlock::Key account_key{"account/17"};

/// The first holder, in a process of its own. It ends with 0 when its late write was refused.
int first_holder(const std::string& store, const std::string& database) {
    const auto client = dlock::Client::open(store).value();
    const dlock::Lease lease = client.mutex(account_key).try_acquire({.lease = 500ms}).value();
    const dlock::Fence fence = lease.fence().value();
    const bool held = lease.held();  // true, and of no use a moment later:
    std::printf("first holder:  fence %llu, held: %s; stopped before its write\n", number(fence),
                held ? "yes" : "no");
    std::fflush(stdout);
    kill(getpid(), SIGSTOP);
    const bool written = Accounts(database).write(50, fence);
    std::printf("first holder:  goes on, its write of 50 with fence %llu is %s\n", number(fence),
                written ? "TAKEN" : "refused");
    std::fflush(stdout);
    return held && !written ? 0 : 1;
}

/// Waits until the process is stopped (WUNTRACED) or has ended.
int wait_for(pid_t process, int options) {
    int status = 0;
    while (waitpid(process, &status, options) < 0 && errno == EINTR) {
    }
    return status;
}

}  // namespace

int main() {
    const examples::TempFolder folder;
    const std::string database = folder.file("accounts.db");
    Accounts(database).create();

    const pid_t first = fork();
    if (first == 0) _exit(first_holder(folder.store(), database));
    if (!WIFSTOPPED(wait_for(first, WUNTRACED))) return 1;

    // Its lease runs out while it is stopped; the lock goes to us, with a higher fence.
    const auto client = dlock::Client::open(folder.store()).value();
    const dlock::Lease lease = client.mutex(account_key).acquire();
    const dlock::Fence fence = lease.fence().value();
    Accounts accounts(database);
    const bool written = accounts.write(200, fence);
    std::printf("second holder: fence %llu, its write of 200 is %s\n", number(fence),
                written ? "taken" : "REFUSED");
    std::fflush(stdout);

    kill(first, SIGCONT);
    const int status = wait_for(first, 0);
    std::printf("balance: %lld\n", static_cast<long long>(accounts.balance()));
    const bool refused = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return written && refused && accounts.balance() == 200 ? 0 : 1;
}
