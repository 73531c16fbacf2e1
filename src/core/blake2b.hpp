// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dlock::core {

/// BLAKE2b with 16 bytes of result.
using Blake2b = std::array<std::uint8_t, 16>;
Blake2b blake2b(std::string_view bytes) noexcept;

}  // namespace dlock::core
