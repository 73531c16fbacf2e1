// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/connection.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include "core/text.hpp"
#include "store/sqlite/schema.hpp"

namespace dlock::store::sqlite {
namespace {

/// A log of fewer frames stays when the last connection closes: the next one reads it faster than this one
/// could copy and sync it, and a command line opens and closes for each lock.
constexpr int small_log = 250;
constexpr int large_log = 8000;  // frames; 16 MB
constexpr std::chrono::milliseconds log_check_every{100};

std::chrono::nanoseconds jittered_nap() noexcept {
    std::uint8_t random = 0;
    core::random_bytes(&random, 1);
    return std::chrono::microseconds(100 + 3 * random);  // 0.1 to 0.9 ms
}

}  // namespace

Moment Moment::of(const Loop& loop) noexcept {
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    return {.now = to_us(loop.now()), .wall = wall.tv_sec * 1'000'000 + wall.tv_nsec / 1000};
}

core::StoreTime Moment::store_time() const noexcept {
    return {.now = from_us(now), .wall_us = static_cast<std::uint64_t>(std::max<std::int64_t>(wall, 0))};
}

Error too_late() {
    return {errc::unavailable, "the time for the call was over before its turn came", Fault::retry};
}

Result<std::string> boot_id() {
    constexpr const char* path = "/proc/sys/kernel/random/boot_id";
    char text[36];  // 8-4-4-4-12 hexadecimal digits
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = file < 0 ? -1 : read(file, text, sizeof text);
    if (file >= 0) ::close(file);
    std::string bytes;
    int high = -1;
    for (ssize_t i = 0; i < got; ++i) {
        const int digit = core::hex_value(text[i]);
        if (digit < 0) continue;
        if (high >= 0) bytes.push_back(static_cast<char>(high << 4 | digit));
        high = high >= 0 ? -1 : digit;
    }
    if (bytes.size() != 16)
        return Error(errc::unavailable,
                     std::string("cannot read ") + path + ", which tells one boot from another");
    return bytes;
}

void Connection::close() noexcept {
    if (!open_) return;
    open_->db.at_close(open_->db.wal_frames() < small_log ? db::Sqlite::AtClose::leave
                                                          : db::Sqlite::AtClose::checkpoint);
    open_.reset();
}

auto Connection::setback(const db::SqliteFailure& failure, const std::string& path) -> Setback {
    return {.error = failure.describe(path), .then = failure.busy() ? Then::wait : Then::give_up};
}

auto Connection::ready(Turns turns) -> std::optional<Setback> {
    if (!open_ || moved()) {
        close();
        if (auto failed = open()) return failed;
    }
    if (turns == Turns::wait && open_->db.read_only())
        return setback({.code = SQLITE_READONLY, .text = {}}, open_->path);
    return std::nullopt;
}

bool Connection::moved() {
    if (shared_.location.file() != open_->file) return true;
    // A system call each: not for every statement.
    const TimePoint now = shared_.loop.now();
    if (now - open_->log_seen < log_check_every) return false;
    open_->log_seen = now;
    return log_files(open_->path) != open_->log;
}

auto Connection::open() -> std::optional<Setback> {
    const auto path = shared_.location.resolve();
    if (!path) return Setback{.error = path.error()};
    if (file_id(*path).inode == 0) {
        const auto made = Location::create(*path);
        if (!made) return Setback{.error = made.error()};
    }
    const FileId before = file_id(*path);
    Open fresh{
        .db = db::Sqlite(*path), .path = *path, .file = before, .log = {}, .log_seen = {}, .line = nullptr};
    if (auto failed = prepare(fresh)) return failed;
    fresh.log = log_files(*path);
    fresh.log_seen = shared_.loop.now();
    // Swapped while it was being opened: whichever it is that we have, it is not looked at again.
    if (shared_.location.file() != before || !fresh.log.complete())
        return Setback{
            .error = Error(errc::unavailable, *path + " is being deleted or swapped", Fault::retry),
            .then = Then::wait};
    fresh.line = Line::open(*path);
    open_.emplace(std::move(fresh));
    return std::nullopt;
}

auto Connection::prepare(Open& fresh) -> std::optional<Setback> {
    db::Sqlite& db = fresh.db;
    Content found = Content::empty;
    {
        const db::Transaction one_state(db, db::Transaction::Kind::reads);
        found = content(db);
    }
    if (db.failed()) return setback(db.failure(), fresh.path);
    if (found != Content::ours && found != Content::empty)
        return Setback{.error = refusal(found, fresh.path)};
    if (!db.read_only()) {
        if (found == Content::empty)
            db.execute("PRAGMA page_size = 2048");  // a commit writes whole pages, mostly one
        db::Query mode(db, "PRAGMA journal_mode = WAL");
        if (mode.row() && mode.bytes(0) != "wal")
            return Setback{
                .error = Error(errc::unsupported, fresh.path + " cannot have a write-ahead log where it is")};
        mode.finish();
        db.execute("PRAGMA synchronous = NORMAL; PRAGMA cell_size_check = ON");
        if (found == Content::empty) initialise(db);
    }
    // The log and its index exist from the first read on.
    db.number("SELECT layout FROM dlock_meta");
    if (db.failed()) return setback(db.failure(), fresh.path);
    return std::nullopt;
}

auto Connection::after_failure(Relief& relief) -> Setback {
    db::Sqlite& db = open_->db;
    const db::SqliteFailure failure = db.failure();
    db.forgive();
    Setback result = setback(failure, open_->path);
    if (failure.busy()) return result;
    if (failure.no_space() && relief == Relief::possible) {
        // What is in the log already has its place in the file; once copied, the log begins anew in its own
        // space.
        relief = Relief::used;
        db.checkpoint(db::Sqlite::Writers::go_on);
        result.then = Then::again;
        return result;
    }
    // Whatever it was: look at the file afresh next time, when somebody may have mended it.
    close();
    return result;
}

bool Connection::may_repeat(Then how, TimePoint deadline) const {
    if (shared_.stopping.load(std::memory_order_relaxed)) return false;
    const TimePoint now = shared_.loop.now();
    if (now >= deadline) return false;
    if (how == Then::wait)
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(deadline - now, jittered_nap()));
    return true;
}

void Connection::checkpoint(int frames, TimePoint deadline) {
    using Writers = db::Sqlite::Writers;
    const auto copied = read(deadline, [](db::Sqlite& db) {
        db.checkpoint(Writers::go_on);
        return true;
    });
    if (!copied) return;
    // Only a log that is copied whole starts again from its beginning. So what came meanwhile is copied in a
    // turn of the line, while nobody adds more; on a disk that syncs too slowly for that, in the end by
    // force.
    const Line::Turn turn(open_->line.get());
    open_->db.checkpoint(frames < large_log ? Writers::go_on : Writers::locked_out);
}

}  // namespace dlock::store::sqlite
