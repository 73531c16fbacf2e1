// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "dlock/result.hpp"

/// Bytes as text and back.
namespace dlock::core {

/// Lower case, two digits a byte.
std::string to_hex(std::string_view bytes);
void append_hex(std::string& text, std::string_view bytes);
/// The value of one hexadecimal digit of either case, or -1.
int hex_value(char digit) noexcept;

/// Without padding.
std::string to_base64url(std::string_view bytes);
/// Nothing unless `text` is exactly what to_base64url makes of some bytes.
std::optional<std::string> from_base64url(std::string_view text);

/// The length of the UTF-8 character at the beginning of `text`; 0 when there is none (overlong forms,
/// surrogates and numbers past U+10FFFF are none).
std::size_t utf8_length(std::string_view text) noexcept;
bool valid_utf8(std::string_view text) noexcept;

/// Bytes for people: UTF-8 as it is, while control characters, `%` and bytes that are not UTF-8 become %XX.
std::string escape(std::string_view bytes);
/// The bytes again; nothing when a `%` is not followed by two hexadecimal digits.
std::optional<std::string> unescape(std::string_view text);

/// `invalid_argument` naming the field unless the text is UTF-8 of at most `max_size` bytes.
Result<void> check_text(std::string_view field, std::string_view text, std::size_t max_size);

}  // namespace dlock::core
