// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "db/sqlite.hpp"
#include "dlock/result.hpp"

/// The tables. Times are microseconds: `since` and `expires` of the boot-time clock of the boot named beside
/// them, `wall` and `used` since 1970.
///
///   dlock_locks    one row a key: its kind, the version of the row, the last fence, the present grant where
///   `held`
///                  is 1, else what is left of the last one (a row that keeps its size is written in place),
///                  and how many rows of dlock_tickets it has
///   dlock_tickets  the line of a key in order of `place`, each with the address where its owner is woken
///   dlock_meta     one row: the layout, and the floor under the fences of keys that were forgotten
namespace dlock::store::sqlite {

inline constexpr std::int64_t application_id = 0x646C636B;  // "dlck"
inline constexpr std::int64_t layout_version = 1;

enum class Content {
    ours,
    empty,    ///< a database without anything in it
    foreign,  ///< another program's
    newer,    ///< of a dlock with a later layout
    broken,   ///< ours, but tables are missing
};
/// Within a transaction, since others may be making the tables. Look at `failed()` first.
Content content(db::Sqlite& database);
/// Makes the tables unless somebody has done so by now.
void initialise(db::Sqlite& database);
/// Why such a database is left alone; for all but `ours` and `empty`.
Error refusal(Content content, const std::string& path);

}  // namespace dlock::store::sqlite
