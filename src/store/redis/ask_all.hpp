// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "store/redis/links.hpp"

namespace dlock::store::redis {

using Words = std::vector<std::string>;
using Answers = std::vector<Result<ReplyPtr>>;

/// Several commands in one go over the side connection. `done` gets, in their order, the reply of each, of
/// whatever type, or its error; at once when there are none.
void ask_all(Links& links, Call call, const std::vector<Words>& commands, std::function<void(Answers)> done);

/// The text of a reply; empty for an error and for other types.
std::string_view text_of(const Result<ReplyPtr>& answer) noexcept;
/// The number of an integer reply, or `otherwise`.
long long number_of(const Result<ReplyPtr>& answer, long long otherwise) noexcept;

}  // namespace dlock::store::redis
