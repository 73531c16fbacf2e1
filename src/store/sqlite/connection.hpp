// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "core/record.hpp"
#include "db/sqlite.hpp"
#include "dlock/result.hpp"
#include "store/loop.hpp"
#include "store/sqlite/line.hpp"
#include "store/sqlite/location.hpp"

namespace dlock::store::sqlite {

/// The two clocks of one statement, as they are stored: microseconds.
struct Moment {
    std::int64_t now = 0;   ///< CLOCK_BOOTTIME
    std::int64_t wall = 0;  ///< since 1970

    static Moment of(const Loop& loop) noexcept;
    [[nodiscard]] core::StoreTime store_time() const noexcept;
};
inline std::int64_t to_us(std::chrono::nanoseconds time) noexcept {
    return std::chrono::floor<std::chrono::microseconds>(time).count();
}
inline std::int64_t to_us(TimePoint time) noexcept { return to_us(time.time_since_epoch()); }
inline TimePoint from_us(std::int64_t us) noexcept { return TimePoint(std::chrono::microseconds(us)); }

/// What all connections of one store share; outlives them.

struct Shared {
    Location location;
    Loop& loop;
    std::string boot;  ///< 16 bytes: times of another boot say nothing
    std::atomic<bool> stopping{false};

    Shared(Location where, Loop& the_loop, std::string boot_id)
        : location(std::move(where)), loop(the_loop), boot(std::move(boot_id)) {}
};

/// Of a call whose deadline came before it began.
Error too_late();

/// The 16 bytes that name this boot of the kernel.
Result<std::string> boot_id();

/// One connection that looks after itself: opened (and the database made) at its first use, checked against
/// the file system at each, opened anew after failures, patient with the locks of others until a deadline.
/// One thread at a time.
class Connection {
public:
    explicit Connection(Shared& shared) noexcept : shared_(shared) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() { close(); }

    /// Runs `statements(db::Sqlite&)` in its turn among the writers, again while others keep the database
    /// locked. An error means that nothing was done.
    template <class Statements>
    auto write(TimePoint deadline, Statements statements) {
        return run(deadline, Turns::wait, std::move(statements));
    }
    /// The same for statements that only read.
    template <class Statements>
    auto read(TimePoint deadline, Statements statements) {
        return run(deadline, Turns::none, std::move(statements));
    }

    /// Frames in the log after the last commit here.
    [[nodiscard]] int wal_frames() const noexcept { return open_ ? open_->db.wal_frames() : 0; }
    /// Copies the log, which has about so many frames, into the database. Syncs, so it takes its time.
    void checkpoint(int frames, TimePoint deadline);

private:
    enum class Turns { wait, none };
    enum class Relief { possible, used };  ///< of a full disk, once a call
    struct Open {
        db::Sqlite db;
        std::string path;
        FileId file;
        LogFiles log;
        TimePoint log_seen;
        std::unique_ptr<Line> line;
    };
    enum class Then { give_up, wait, again };
    struct Setback {
        Error error;
        Then then = Then::give_up;
    };

    template <class Statements>
    auto run(TimePoint deadline, Turns turns, Statements statements)
        -> Result<std::invoke_result_t<Statements&, db::Sqlite&>> {
        if (shared_.loop.now() >= deadline) return too_late();
        for (Relief relief = Relief::possible;;) {
            std::optional<Setback> setback = ready(turns);
            if (!setback) {
                // Kept while others have the database locked: that is what makes them let us in.
                const Line::Turn turn(turns == Turns::wait ? open_->line.get() : nullptr);
                do {
                    open_->db.forgive();
                    auto answer = statements(open_->db);
                    if (!open_->db.failed()) return answer;
                } while (open_->db.failure().busy() && may_repeat(Then::wait, deadline) && !moved());
            }
            if (!setback) setback = after_failure(relief);
            if (setback->then == Then::give_up || !may_repeat(setback->then, deadline))
                return std::move(setback->error);
        }
    }

    std::optional<Setback> ready(Turns turns);
    /// The path leads to another file by now, or to none.
    bool moved();
    std::optional<Setback> open();
    std::optional<Setback> prepare(Open& fresh);
    Setback after_failure(Relief& relief);
    static Setback setback(const db::SqliteFailure& failure, const std::string& path);
    /// False when the time is over; else after a nap, unless it is to be again at once.
    bool may_repeat(Then how, TimePoint deadline) const;
    void close() noexcept;

    Shared& shared_;
    std::optional<Open> open_;
};

}  // namespace dlock::store::sqlite
