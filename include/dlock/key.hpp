// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "dlock/result.hpp"

namespace dlock {

/// The name of a protected resource: 1 to 1024 bytes, compared byte by byte, never folded, trimmed or
/// normalised ("Ä" composed and "Ä" decomposed are two keys).
///
/// `Key{bytes}` takes the bytes as they are. `Key::parse` reads the one text form used wherever people type
/// or read a key: UTF-8 as is, while control characters, `%` and bytes that are not UTF-8 are written %XX. A
/// Key is only checked where it is used; `check()` tells beforehand.
class Key {
public:
    static constexpr std::size_t max_size = 1024;

    explicit Key(std::string bytes) noexcept : bytes_(std::move(bytes)) {}

    /// Reads the text form; a `%` without two hexadecimal digits behind it is `invalid_argument`.
    static Result<Key> parse(std::string_view text);

    [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

    /// The text form; `parse(text())` gives the same key back.
    [[nodiscard]] std::string text() const;

    /// The bytes before the first `/`; empty without one.
    [[nodiscard]] std::string_view name_space() const noexcept;

    /// `invalid_argument` when empty or too long.
    [[nodiscard]] Result<void> check() const;

    friend bool operator==(const Key&, const Key&) = default;
    // NOLINTNEXTLINE(modernize-use-nullptr): a false alarm on defaulted comparisons
    friend std::strong_ordering operator<=>(const Key&, const Key&) = default;

private:
    std::string bytes_;
};

}  // namespace dlock

template <>
struct std::hash<dlock::Key> {
    std::size_t operator()(const dlock::Key& key) const noexcept {
        return std::hash<std::string>{}(key.bytes());
    }
};
