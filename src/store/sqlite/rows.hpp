// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/record.hpp"
#include "db/sqlite.hpp"
#include "dlock/inspect.hpp"
#include "store/sqlite/connection.hpp"
#include "store/store.hpp"

/// One key's record between the tables and the rules of core.
namespace dlock::store::sqlite {

/// A record with what the tables know beside it. Owners are not read (null in `record`), since the rules do
/// not ask for them: those of the holders are in `owners`, as text.
struct Stored {
    core::Record record;
    std::vector<std::string> owners;  ///< of the holders, as they stand in the tables
    std::vector<core::Holder> held;   ///< likewise
    std::optional<GrantId> first;     ///< the holder in the lock's row; the others have rows of their own
    std::int64_t others = 0;          ///< how many those are, as the lock's row counts them
    std::string problem;              ///< why the row cannot be understood; empty when fine
    bool newer = false;               ///< the problem is a kind that this dlock does not know
    bool exists = false;
    std::int64_t tickets = 0;  ///< rows of the line, as the lock's row counts them
    bool restamped = false;    ///< times of another boot were counted anew: write it back, whatever happens
    struct Place {
        TicketId ticket;
        std::int64_t number;
        milliseconds lease;
        TimePoint expires;
    };
    std::vector<Place> places;  ///< of the tickets as they stand in the table
};

/// What read_lock_row() reads; the key is the last column.
inline constexpr const char* select_lock =
    "SELECT kind, fence, tickets, used, held, holder, owner, since, wall, expires, lease, boot, permits, "
    "pinned, mode, holder_fence, others, key FROM dlock_locks "
    "WHERE key = ?1";
inline constexpr const char* select_locks =
    "SELECT kind, fence, tickets, used, held, holder, owner, since, wall, expires, lease, boot, permits, "
    "pinned, mode, holder_fence, others, key FROM dlock_locks "
    "WHERE key > ?1 AND key >= ?2 ORDER BY key LIMIT ?3";
inline constexpr int key_column = 17;
Stored read_lock_row(const db::Query& row, Moment moment, std::string_view boot);

/// The whole record. Grants and tickets of another boot get one whole lease from now: nobody can tell how
/// much of it is left, and a live owner (which a shared disk would make possible) renews it back.
Stored load(db::Sqlite& db, std::string_view key, Moment moment, std::string_view boot);

/// Writes back what the rules made of it, with `ticket_lease` for places that are new or were kept by `mine`.
struct TicketLease {
    TicketId mine;
    milliseconds lease{};
};
void save(db::Sqlite& db, std::string_view key, const Stored& stored, Moment moment, std::string_view boot,
          TicketLease ticket_lease = {});

/// All that is known of the key; its fence is the caller's care.
void drop_all(db::Sqlite& db, std::string_view key);

/// Of the holder with that id, as it stands in the tables, perhaps held off meanwhile; empty: not there.
std::string_view owner_of(const Stored& stored, const GrantId& id);

/// The holders that count, for people.
std::vector<HolderInfo> holder_infos(const Stored& stored, Moment moment);
/// One of them; none when it is free.
std::optional<HolderInfo> holder_info(const Stored& stored, Moment moment);

}  // namespace dlock::store::sqlite
