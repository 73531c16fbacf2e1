// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace dlock::cli {

/// The least that an option takes.
enum class Least { zero, more_than_zero };

/// "30s", "1.5m", "500ms", "1h", "2d". Anything else is a Failure (64) that names the field and the fix.
std::chrono::milliseconds parse_duration(std::string_view field, std::string_view text, Least least);

/// Seconds with decimals and no unit, as flock's -w.
std::chrono::milliseconds parse_seconds(std::string_view field, std::string_view text);

/// A whole number from `least` to `most`.
int parse_number(std::string_view field, std::string_view text, int least, int most);

/// For people: "350 ms", "12 s", "3 min 5 s", "2 h 10 min", "4 d 3 h".
std::string human(std::chrono::milliseconds duration);

}  // namespace dlock::cli
