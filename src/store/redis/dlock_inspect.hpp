// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/redis/links.hpp"

/// Looking at records of layout `dlock`, over the side connection. Reads only.
namespace dlock::store::redis {

/// One key with its line; an empty page when it has no record.
void look_at(const std::shared_ptr<Links>& links, const Key& key, Call call, Completion<Result<Page>> done);

/// The stored id of the live grant; empty when free.
void find_holder(const std::shared_ptr<Links>& links, const Key& key, Call call,
                 std::function<void(Result<std::string>)> done);

/// One page by SCAN. It ends early, with a cursor, when half of the call's time is over.
void list_records(const std::shared_ptr<Links>& links, Loop& loop, const Filter& filter, Call call,
                  Completion<Result<Page>> done);

}  // namespace dlock::store::redis
