// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/sqlite/connection.hpp"
#include "store/store.hpp"

namespace dlock::store::sqlite {

/// One page in the order of the keys, or the one key with up to 100 of its waiters (as free when it has no
/// record).
Result<Page> inspect(Connection& connection, const Shared& shared, const InspectRequest& request,
                     TimePoint deadline);

}  // namespace dlock::store::sqlite
