// SPDX-License-Identifier: Apache-2.0
/// Instead of core/random.cpp: ids of a run come from its seed, so that the run can be repeated.
#include "sim/seeded_bytes.hpp"

#include "core/ids.hpp"
#include "core/planted.hpp"
#include "sim/random.hpp"

namespace dlock::sim {
namespace {
Random bytes{0};
}  // namespace

void seed_bytes(std::uint64_t seed) noexcept { bytes = Random(~seed); }

}  // namespace dlock::sim

namespace dlock::core {

Planted planted_fault = Planted::none;

void random_bytes(std::uint8_t* out, std::size_t size) noexcept {
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::uint8_t>(sim::bytes.next());
}

}  // namespace dlock::core
