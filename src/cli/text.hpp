// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "dlock/inspect.hpp"
#include "dlock/once.hpp"

namespace dlock::cli {

/// One word of a POSIX shell that stands for exactly this text.
std::string shell_quote(std::string_view text);

/// Text of other people (notes, host names, a store's words) for a terminal: nothing in it moves the cursor.
std::string printable(std::string_view text);

/// The text with everything that is not UTF-8 replaced by U+FFFD, as JSON needs it.
std::string utf8(std::string_view text);

/// `billing@web-3 (pid 812)`
std::string describe(const Owner& owner);

/// `held by billing@web-3 (pid 812) for 12 s, free in 28 s unless renewed, "deploy of 2.14"`
std::string describe(const HolderInfo& holder);

/// One line about the lock: its holders, or that it is free, or what is wrong with the record.
std::string describe(const LockInfo& lock);

/// `nightly was done by web@host (pid 7), 5 min ago, "by hand"`
std::string describe(const Key& key, const Outcome& outcome);

}  // namespace dlock::cli
