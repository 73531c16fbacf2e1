// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/planted.hpp"
#include "sim/world.hpp"

namespace dlock::sim {

struct Outcome {
    std::optional<Violation> violation;
    std::uint64_t events = 0;
};

/// One run, from its seed alone: a storm of faults over clients that acquire and release, then calm weather
/// in which everything must come to its end.
Outcome run(std::uint64_t seed, core::Planted fault, World::Trace trace = World::Trace::off);

}  // namespace dlock::sim
