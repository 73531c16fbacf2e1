// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "dlock/inspect.hpp"

/// The owner as stores keep it: one JSON object, which people and other programs can read.
namespace dlock::store {

/// Compact; what is not recorded is left out.
std::string to_json(const Owner& owner);

/// Fields that are unknown or of another type are passed over; damaged text is an owner of whom nothing is
/// recorded.
Owner owner_from_json(std::string_view text);

}  // namespace dlock::store
