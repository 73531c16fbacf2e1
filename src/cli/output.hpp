// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <boost/json/fwd.hpp>

#include "cli/exit_code.hpp"
#include "dlock/inspect.hpp"

namespace dlock::cli {

/// Opens the standard descriptors that are closed on /dev/null, so that no file of ours gets their numbers.
/// Writing to a stdout that was closed goes on failing.
void open_standard_descriptors() noexcept;

/// Writes all of it to stdout; a Failure (125) when that is not possible.
void print(std::string_view text);
/// The object and a newline to stdout.
void print(const boost::json::object& object);

/// "dlock: " and a line on stderr, in one write. Never fails.
void say(std::string_view line) noexcept;

/// Tells of a failure: on stdout as JSON where that was asked for, else on stderr.
void report(const Failure& failure, bool json) noexcept;

boost::json::object json_of(const Owner& owner);
boost::json::object json_of(const HolderInfo& holder);
boost::json::object json_of(const LockInfo& lock);
/// {"error": {...}} and, where known, who holds the lock.
boost::json::object json_of(const Failure& failure);
/// A decimal string, or null.
boost::json::value json_of(const std::optional<Fence>& fence);
/// "2026-12-01T03:00:00Z", or null.
boost::json::value json_of(std::chrono::system_clock::time_point when);

}  // namespace dlock::cli
