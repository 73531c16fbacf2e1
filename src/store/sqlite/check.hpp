// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "dlock/check.hpp"
#include "store/sqlite/connection.hpp"

namespace dlock::store::sqlite {

/// The findings of `Store::check`: the file, its folder, its disk, and what SQLite says of it. Makes no file.
Result<std::vector<Finding>> check(Connection& connection, const Shared& shared, TimePoint deadline);

}  // namespace dlock::store::sqlite
