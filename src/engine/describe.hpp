// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "dlock/error.hpp"
#include "dlock/inspect.hpp"

namespace dlock::engine {

/// "billing on web-3 (pid 812) for 12 s, free in 18 s unless renewed; note: nightly run"
std::string describe(const HolderInfo& holder);

/// A wait that failed names whom it waited for.
Error with_holder(Error error, const std::optional<HolderInfo>& holder);

}  // namespace dlock::engine
