// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlock/scan.hpp"

/// What kind of lock a stored value is, by its form. No I/O. The forms are those of the programs' sources.
namespace dlock::store::redis {

/// A string value.
struct SeenString {
    std::string name;
    std::string value;      ///< its first bytes
    std::string companion;  ///< of layout `plain`; empty without one
    long long left = -1;    ///< PTTL: -1 without expiry
    long long now_us = 0;   ///< the server's clock; 0: not known
};
std::optional<FoundLock> recognise(const SeenString& seen);

/// A hash that is no record of layout `dlock`.
struct SeenHash {
    std::string name;
    std::vector<std::pair<std::string, std::string>> fields;  ///< some of them
    long long left = -1;
    std::size_t queued = 0;  ///< length of Redisson's queue of the name
};
std::optional<FoundLock> recognise(const SeenHash& seen);

/// A hash under a name of layout `dlock`.
struct SeenRecord {
    std::string key;
    std::string version, grant, expires, since, owner;  ///< fields v, g, x, s, o
    long long now_us = 0;
    std::size_t queued = 0;
};
FoundLock recognise(const SeenRecord& seen);

/// Whether the name is a part of a lock that is told by its main name.
bool is_side_name(std::string_view name);
/// Whether a string under the name is worth a look, given its PTTL.
bool may_be_lock(std::string_view name, long long left);

}  // namespace dlock::store::redis
