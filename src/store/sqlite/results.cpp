// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite/results.hpp"

#include <algorithm>
#include <string>

#include "store/owner_json.hpp"

namespace dlock::store::sqlite {

std::optional<core::Done> load_result(db::Sqlite& db, std::string_view key, Moment moment) {
    db::Query row(db, "SELECT result, owner, wall, until FROM dlock_done WHERE key = ?1");
    row.bind(db::Blob{key});
    if (!row.row()) return std::nullopt;
    const std::int64_t age = std::max<std::int64_t>(moment.wall - row.integer(2), 0);
    return core::Done{.result = std::string(row.bytes(0)),
                      .owner = std::make_shared<const Owner>(owner_from_json(row.bytes(1))),
                      .at = from_us(moment.now - age),
                      .until = from_us(moment.now + row.integer(3) - moment.wall),
                      .wall_us = static_cast<std::uint64_t>(row.integer(2))};
}

void save_result(db::Sqlite& db, std::string_view key, const core::Done& done, std::string_view owner,
                 Moment moment) {
    db::Query query(db,
                    "INSERT OR REPLACE INTO dlock_done(key, result, owner, wall, until) "
                    "VALUES (?1, ?2, ?3, ?4, ?5)");
    query.bind(db::Blob{key}).bind(db::Blob{done.result}).bind(owner);
    query.bind(moment.wall).bind(moment.wall + to_us(done.until - from_us(moment.now))).finish();
}

void drop_result(db::Sqlite& db, std::string_view key) {
    db::Query(db, "DELETE FROM dlock_done WHERE key = ?1").bind(db::Blob{key}).finish();
}

}  // namespace dlock::store::sqlite
