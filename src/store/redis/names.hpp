// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/ids.hpp"

/// Between keys and ids and what they are called in Redis. Layout `dlock` keeps of a key K:
///
///     dlock:{K}          HASH    the record
///     dlock:{K}:line     ZSET    tickets by arrival; only while somebody waits
///     dlock:{K}:tickets  HASH    what is known of each ticket; only while somebody waits
///     dlock:{K}:held     ZSET    who holds, by expiry; only of keys with many holders
///     dlock:{K}:done     STRING  what work that is done left
///     dlock:floor        STRING  the highest fence ever given
///
/// with `{`, `}` and `%` of K as %7B, %7D and %25, so that no key can look like another's parts, and all
/// parts of a key have one hash tag. Layout `plain` keeps K itself and `dlock:meta:K`.
namespace dlock::store::redis {

inline constexpr std::string_view floor_name = "dlock:floor";
inline constexpr std::string_view meta_prefix = "dlock:meta:";

struct Names {
    std::string record;
    std::string line;
    std::string tickets;
    explicit Names(std::string_view key);
    [[nodiscard]] std::string held() const { return record + ":held"; }
    [[nodiscard]] std::string done() const { return record + ":done"; }
    static Names of_record(std::string name);

private:
    void add_parts();
};

/// The key of a record's name; nothing when no key has this name.
std::optional<std::string> key_of(std::string_view record_name);

/// A SCAN pattern for the records of keys that begin with `prefix`.
std::string record_pattern(std::string_view prefix);
/// The text as a pattern that matches only itself.
std::string glob_escape(std::string_view text);

/// An id from its 32 lower-case hexadecimal digits.
template <class Id>
std::optional<Id> id_from_hex(std::string_view hex);

/// What people see of a stored owner token: of an own one the grant's public id, of another's its own hash.
std::string public_id_of_token(std::string_view token);

}  // namespace dlock::store::redis
