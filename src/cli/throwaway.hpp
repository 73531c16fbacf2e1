// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "dlock/client.hpp"

namespace dlock::cli {

/// What the names of keys begin with that are only there for a trial.
inline constexpr const char* throwaway_prefix = "dlock-trial/";

/// `prefix`, 16 random hexadecimal digits, and "/".
std::string throwaway_name(const std::string& prefix);

/// Milliseconds with decimals.
using Millis = std::chrono::duration<double, std::milli>;

/// "0.31 ms", "12.4 ms", "1.2 s"
std::string human(Millis time);

}  // namespace dlock::cli
