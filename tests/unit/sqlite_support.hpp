// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "engine/asio_loop.hpp"
#include "store/sqlite/sqlite_store.hpp"

/// What the tests of the SQLite store share.
namespace dlock::store::sqlite {

using namespace std::chrono_literals;

inline constexpr std::chrono::seconds patience{20};

class TempFolder {
public:
    TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder();
    [[nodiscard]] std::string path(const std::string& name = {}) const {
        return name.empty() ? path_ : path_ + "/" + name;
    }

private:
    std::string path_;
};

/// A bare connection, to see and to spoil what the store wrote.
class Raw {
public:
    explicit Raw(const std::string& file);
    Raw(const Raw&) = delete;
    Raw& operator=(const Raw&) = delete;
    ~Raw() { sqlite3_close(handle_); }
    void run(const std::string& sql);
    /// The first column of the first row as text; empty without one.
    std::string one(const std::string& sql);

private:
    sqlite3* handle_ = nullptr;
};

/// No file can grow past `size`, as on a full disk.
class FullDisk {
public:
    explicit FullDisk(rlim_t size) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        struct rlimit full = before_;
        full.rlim_cur = size;
        setrlimit(RLIMIT_FSIZE, &full);
    }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;
    ~FullDisk() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

private:
    void (*handler_)(int);
    struct rlimit before_ {};
};

/// A store on a loop of its own, called from the test's thread, with answers as values.
class Rig {
public:
    explicit Rig(const std::string& file) : Rig(Url::parse("sqlite:" + file).value()) {}
    explicit Rig(const Url& url);

    AcquireAnswer acquire(const std::string& key, const GrantId& attempt,
                          std::chrono::milliseconds lease = 10s, Place place = {});
    /// A new attempt, which must be granted.
    GrantId hold(const std::string& key, std::chrono::milliseconds lease = 10s);
    /// The fence of a grant that is released again.
    std::uint64_t fence(const std::string& key);
    Queued queue(const std::string& key, const GrantId& attempt, const TicketId& ticket,
                 std::chrono::milliseconds ticket_lease = 10s);
    Result<Released> release(const std::string& key, const GrantId& attempt,
                             std::optional<TicketId> ticket = {});
    RenewAnswer renew(const std::string& key, std::variant<GrantId, TicketId> id,
                      std::chrono::milliseconds lease = 10s);
    Result<Page> inspect(const InspectRequest& request);
    Page list(Filter filter = {}) { return inspect({.filter = std::move(filter), .only = {}}).value(); }
    LockInfo show(const std::string& key);
    Result<Forced> force(const std::string& key, const std::string& seen);

    [[nodiscard]] Call call() const { return {.deadline = loop.now() + limit}; }
    [[nodiscard]] SubjectPtr subject(const std::string& key) const;

    std::chrono::milliseconds limit{2000};
    std::shared_ptr<Owner> owner = std::make_shared<Owner>();
    engine::AsioLoop loop;
    std::unique_ptr<Store> store;
};

Place join(const TicketId& ticket, std::chrono::milliseconds ticket_lease = 10s,
           Place::AfterGrant after = Place::AfterGrant::leave);
std::optional<Fence> fence_of(const AcquireAnswer& answer);
/// The error, or one that says that there was none.
Error error_of(const AcquireAnswer& answer);

template <class Id>
Id new_id() {
    return core::random_id<Id>();
}

/// This test program once more, in the role of another process. Killed and waited for at the end.
class Process {
public:
    Process(const std::string& role, const std::vector<std::string>& arguments);
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process();

    /// The next line it prints; empty at its end or after `patience`.
    std::string line();
    void say(const std::string& line) const;
    void signal(int number) const;
    /// Its exit status; 128 + n by a signal; -1 after `patience`.
    int wait();

private:
    pid_t pid_ = -1;
    int to_ = -1;
    int from_ = -1;
    std::string read_;
};

/// What the other process does; its exit status.
int play(const std::string& role, const std::vector<std::string>& arguments);

}  // namespace dlock::store::sqlite
