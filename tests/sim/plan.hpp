// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/mode.hpp"
#include "dlock/options.hpp"
#include "sim/link.hpp"

namespace dlock::sim {

/// What one run is like; all of it comes from the seed.
struct Plan {
    int clients = 2;
    int threads = 1;  ///< of each client, that acquire and release
    int keys = 1;
    core::Kind kind = core::Kind::mutex;  ///< of all keys
    int errands = 4;                      ///< of each thread
    nanoseconds rest{};                   ///< between two of them, at most
    nanoseconds storm{};                  ///< how long faults happen and new errands begin
    milliseconds shortest_lease{};
    milliseconds longest_lease{};
    ClientOptions options;
    store::Capabilities capabilities;
    Weather weather;         ///< during the storm
    Weather calm;            ///< after it
    bool immediate = false;  ///< no network: every call ends before it returns
    double stubborn = 0;     ///< chance of a wait without limit
    double impatient = 0;    ///< chance of a wait of 0

    // How many of each happen during the storm.
    int pauses = 0;
    int crashes = 0;
    int closes = 0;
    int cuts = 0;
    int stalls = 0;
    int restarts = 0;
    int flushes = 0;
    int clock_steps = 0;
    int forced = 0;
    int clean_ups = 0;

    static constexpr std::uint32_t permits = 2;  ///< of Kind::permits

    [[nodiscard]] bool faultless() const noexcept;
};

Plan make_plan(Random& random);

}  // namespace dlock::sim
