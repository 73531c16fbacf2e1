// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace dlock::sim {

/// From here on `core::random_bytes` gives the bytes of this seed.
void seed_bytes(std::uint64_t seed) noexcept;

}  // namespace dlock::sim
