// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/sqlite/connection.hpp"
#include "store/upkeep.hpp"

namespace dlock::store::sqlite {

/// Locks of any program in the file: our own records, and tables of the form of ShedLock's and of Spring's
/// JdbcLockRegistry. Opens the file afresh, since it may be another program's database. Writes nothing.
Result<ScanPage> survey(Connection& connection, const Shared& shared, const ScanRequest& request,
                        TimePoint deadline);

}  // namespace dlock::store::sqlite
