// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/check.hpp"

#include <array>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace dlock::store::sqlite {
namespace {

using Findings = std::vector<Finding>;

constexpr std::uint64_t mebibyte = 1024 * 1024;
constexpr std::uint64_t little_space = 64 * mebibyte;
constexpr std::uint64_t no_space = 2 * mebibyte;
constexpr std::uint64_t large_log = 64 * mebibyte;  // eight times what a writer lets it grow to

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

std::optional<struct stat> status_of(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return std::nullopt;
    return status;
}

std::string octal(mode_t mode) {
    std::string digits(4, '0');
    for (std::size_t i = 4; i-- > 0; mode >>= 3U) digits[i] = static_cast<char>('0' + (mode & 7U));
    return digits;
}

/// Whether this process may read and write it, by its effective user.
bool writable(const std::string& path) {
    return faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0;
}

void add_folder(const std::string& folder, Findings& found) {
    const auto status = status_of(folder);
    if (!status) return;
    if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
        found.emplace_back(Severity::problem, "folder",
                           "no right to make files in " + folder + ", where SQLite keeps its log",
                           "chown or chmod it; mode now: " + octal(status->st_mode & 07777U));
        return;
    }
    const bool others = (status->st_mode & S_IWOTH) != 0;
    const bool sticky = (status->st_mode & S_ISVTX) != 0;
    if (others && !sticky)
        found.emplace_back(Severity::warning, "folder",
                           "everybody may delete or swap files in " + folder + " (mode " +
                               octal(status->st_mode & 07777U) + "), the locks' among them",
                           "chmod o-w '" + folder + "', or add the sticky bit: chmod +t");
    else
        found.emplace_back(Severity::ok, "folder", folder + " can be written");
}

/// The database and its log files: all must be ours to write, and of one owner and mode.
void add_files(const std::string& path, Findings& found) {
    const auto main = status_of(path);
    if (!main) return;
    for (const char* end : {"", "-wal", "-shm"}) {
        const std::string name = path + end;
        const auto status = status_of(name);
        if (!status) continue;
        if (!writable(name))
            found.emplace_back(
                Severity::problem, "files",
                "no right to read and write " + name + " (mode " + octal(status->st_mode & 07777U) + ")",
                "chown or chmod it as the database: all who lock need both rights");
        else if (status->st_uid != main->st_uid || status->st_mode != main->st_mode)
            found.emplace_back(
                Severity::warning, "files",
                name + " has another owner or mode than the database, so others may fail on it",
                "with no dlock running: chown and chmod it as " + path);
    }
    if (found.empty() || found.back().subject != "files")
        found.emplace_back(Severity::ok, "files",
                           path + " and its log can be written (mode " + octal(main->st_mode & 07777U) + ")");
}

Finding scope_finding(const std::string& path) {
    const auto status = status_of(path);
    const auto folder = status_of(folder_of(path));
    const mode_t mode = status ? status->st_mode : (folder ? folder->st_mode & 0777U : 0);
    const bool shared = (mode & (S_IWGRP | S_IWOTH)) != 0;
    if (!shared)
        return {
            Severity::note, "scope", "this user of this host only: no other user can take or see these locks",
            "for all users of the host, a folder that their group may write; for several hosts, redis://"};
    return {Severity::note, "scope",
            std::string("this host only, ") +
                ((mode & S_IWOTH) != 0 ? "all its users" : "the users of the file's group"),
            "for several hosts use redis://"};
}

void add_disk(const std::string& folder, Findings& found) {
    struct statvfs disk {};
    if (statvfs(folder.c_str(), &disk) != 0) return;
    const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    const std::string text = std::to_string(free / mebibyte) + " MiB free on the disk of " + folder;
    if ((disk.f_flag & ST_RDONLY) != 0)
        found.emplace_back(Severity::problem, "disk",
                           folder + " is on a file system that is mounted read-only",
                           "mount -o remount,rw, or name another file");
    else if (free < no_space || (disk.f_files > 0 && disk.f_favail == 0))
        found.emplace_back(Severity::problem, "disk", text + ": no lock can be taken or renewed",
                           "free some");
    else if (free < little_space)
        found.emplace_back(Severity::warning, "disk", text, "free some before locks cannot be renewed");
    else
        found.emplace_back(Severity::ok, "disk", text);
    // resolve() has refused the file systems that are known to be of several machines.
    found.emplace_back(Severity::ok, "file system", "local, as far as its type tells");
}

/// What a look into the database says.
struct Inside {
    bool read_only = false;
    std::string mode;
    std::string integrity;
    std::int64_t locks = 0;
};

Result<Inside> look(Connection& connection, TimePoint deadline) {
    return connection.read(deadline, [](db::Sqlite& db) {
        Inside inside;
        inside.read_only = db.read_only();
        db::Query mode(db, "PRAGMA journal_mode");
        if (mode.row()) inside.mode = mode.bytes(0);
        mode.finish();
        inside.locks = db.number("SELECT count(*) FROM dlock_locks");
        db::Query check(db, "PRAGMA quick_check(1)");
        if (check.row()) inside.integrity = check.bytes(0);
        check.finish();
        return inside;
    });
}

void add_inside(const Inside& inside, const std::string& path, Findings& found) {
    if (inside.read_only)
        found.emplace_back(Severity::problem, "database", path + " can only be read: no lock can be taken",
                           "check owner and mode (ls -l), and whether the disk is mounted read-only");
    if (inside.mode != "wal" && !inside.read_only)
        found.emplace_back(Severity::warning, "journal", "journal mode " + inside.mode + " in place of wal",
                           "PRAGMA journal_mode = WAL, with no other program on it");
    else if (!inside.read_only)
        found.emplace_back(Severity::ok, "journal",
                           "write-ahead log, synchronous=NORMAL: locks die with the boot, fences go on");
    if (inside.integrity == "ok")
        found.emplace_back(Severity::ok, "integrity",
                           "quick_check finds nothing; keys remembered: " + std::to_string(inside.locks));
    else
        found.emplace_back(Severity::problem, "integrity", "the database is damaged: " + inside.integrity,
                           "move " + path + " and its -wal and -shm away; a new one is made, fences go on");
    const auto log = status_of(path + "-wal");
    if (log && static_cast<std::uint64_t>(log->st_size) > large_log)
        found.emplace_back(Severity::warning, "journal",
                           "the log has " + std::to_string(log->st_size / static_cast<off_t>(mebibyte)) +
                               " MiB: a reader keeps it from being copied into the database",
                           "fuser -v '" + path + "' shows who has it open; end the long reader");
}

Severity severity_of(const Error& error) {
    return error.fault == Fault::retry ? Severity::warning : Severity::problem;
}

}  // namespace

Result<std::vector<Finding>> check(Connection& connection, const Shared& shared, TimePoint deadline) {
    Findings found;
    const auto path = shared.location.resolve();
    if (!path) return path.error();
    add_folder(folder_of(*path), found);
    add_disk(folder_of(*path), found);
    found.push_back(scope_finding(*path));
    found.emplace_back(Severity::ok, "clock",
                       "CLOCK_BOOTTIME of this host decides, which all its processes share: no skew");
    if (shared.location.file().inode == 0) {
        found.emplace_back(Severity::note, "database", *path + " is not there yet; the first lock makes it");
        return found;
    }
    const auto inside = look(connection, deadline);
    add_files(*path, found);
    if (inside)
        add_inside(*inside, *path, found);
    else
        found.emplace_back(severity_of(inside.error()), "database", inside.error().detail,
                           "docs/stores/sqlite.md has a table of what to do");
    return found;
}

}  // namespace dlock::store::sqlite
