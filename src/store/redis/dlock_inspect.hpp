// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/redis/links.hpp"

/// Looking at records of layout `dlock`, over the side connection. Reads only.
namespace dlock::store::redis {

/// One key with its line; an empty page when it has no record.
void look_at(const std::shared_ptr<Links>& links, const Key& key, Call call, Completion<Result<Page>> done);

struct FoundHolder {
    bool held = false;  ///< by anybody
    bool many = false;  ///< the key has the form for many holders
    std::string id;     ///< as stored; empty: the grant that was seen is none of those
};
/// The live grant whose public id is `seen`.
void find_holder(const std::shared_ptr<Links>& links, const Key& key, const std::string& seen, Call call,
                 std::function<void(Result<FoundHolder>)> done);

/// One page by SCAN. It ends early, with a cursor, when half of the call's time is over.
void list_records(const std::shared_ptr<Links>& links, Loop& loop, const Filter& filter, Call call,
                  Completion<Result<Page>> done);

}  // namespace dlock::store::redis
