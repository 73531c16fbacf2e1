// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "core/record.hpp"
#include "db/sqlite.hpp"
#include "store/sqlite/connection.hpp"

/// Results of work that is done once. They outlive a boot, so they end by the wall clock: work that is done
/// twice, or later, because somebody set the clock, is no second holder.
namespace dlock::store::sqlite {

std::optional<core::Done> load_result(db::Sqlite& db, std::string_view key, Moment moment);
void save_result(db::Sqlite& db, std::string_view key, const core::Done& done, std::string_view owner,
                 Moment moment);
void drop_result(db::Sqlite& db, std::string_view key);

}  // namespace dlock::store::sqlite
