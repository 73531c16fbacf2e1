// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace dlock::core {

/// How a key is shared. Only exclusive is granted so far; records and requests have room for the others.
enum class Mode : std::uint8_t { exclusive, shared, permit };

}  // namespace dlock::core
