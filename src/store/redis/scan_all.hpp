// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/redis/links.hpp"
#include "store/upkeep.hpp"

namespace dlock::store::redis {

/// One step of SCAN over the database, and what of it are locks. Sends SCAN, TYPE, PTTL, GETRANGE, GET,
/// HSCAN, HMGET, LLEN, ZCARD, TIME and DBSIZE: nothing that writes, and nothing whose answer can be large.
void scan_all(const std::shared_ptr<Links>& links, const ScanRequest& request, Call call,
              Completion<Result<ScanPage>> done);

}  // namespace dlock::store::redis
