// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/redis/links.hpp"

namespace dlock::store::redis {

/// The findings of `Store::check`. Sends TIME, INFO, CONFIG GET and one script that asks for rights and
/// writes nothing; what the user may not ask is a finding of its own.
void check(const std::shared_ptr<Links>& links, Loop& loop, Call call,
           Completion<Result<std::vector<Finding>>> done);

}  // namespace dlock::store::redis
