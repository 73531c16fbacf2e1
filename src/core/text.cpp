// SPDX-License-Identifier: Apache-2.0
#include "core/text.hpp"

#include <array>
#include <cstdint>

namespace dlock::core {
namespace {

constexpr std::string_view lower_digits = "0123456789abcdef";
constexpr std::string_view upper_digits = "0123456789ABCDEF";
constexpr std::string_view base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::uint8_t byte(char c) noexcept { return static_cast<std::uint8_t>(c); }

/// What a first byte promises: how many bytes, and what the second may be (RFC 3629, table of section 4).
struct Lead {
    std::size_t length;
    std::uint8_t second_min;
    std::uint8_t second_max;
};

Lead lead(std::uint8_t first) noexcept {
    if (first < 0x80) return {1, 0, 0};
    if (first >= 0xC2 && first <= 0xDF) return {2, 0x80, 0xBF};
    if (first == 0xE0) return {3, 0xA0, 0xBF};
    if (first == 0xED) return {3, 0x80, 0x9F};
    if (first >= 0xE1 && first <= 0xEF) return {3, 0x80, 0xBF};
    if (first == 0xF0) return {4, 0x90, 0xBF};
    if (first >= 0xF1 && first <= 0xF3) return {4, 0x80, 0xBF};
    if (first == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

/// C0, DEL and C1, the last as their two bytes in UTF-8.
bool is_control(std::string_view character) noexcept {
    const std::uint8_t first = byte(character.front());
    if (character.size() == 1) return first < 0x20 || first == 0x7F;
    return character.size() == 2 && first == 0xC2 && byte(character[1]) < 0xA0;
}

void append_escaped(std::string& out, char c) {
    out += '%';
    out += upper_digits[byte(c) >> 4];
    out += upper_digits[byte(c) & 15];
}

}  // namespace

std::string to_hex(std::string_view bytes) {
    std::string text;
    append_hex(text, bytes);
    return text;
}

void append_hex(std::string& text, std::string_view bytes) {
    std::size_t at = text.size();
    text.resize(at + 2 * bytes.size());
    for (const char c : bytes) {
        text[at++] = lower_digits[byte(c) >> 4];
        text[at++] = lower_digits[byte(c) & 15];
    }
}

int hex_value(char digit) noexcept {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

std::string to_base64url(std::string_view bytes) {
    std::string text;
    text.reserve((bytes.size() * 4 + 2) / 3);
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (const char c : bytes) {
        bits = bits << 8 | byte(c);
        for (count += 8; count >= 6; count -= 6) text += base64url[bits >> (count - 6) & 63];
    }
    if (count > 0) text += base64url[bits << (6 - count) & 63];
    return text;
}

std::optional<std::string> from_base64url(std::string_view text) {
    std::string bytes;
    bytes.reserve(text.size() * 3 / 4);
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (const char c : text) {
        const auto value = base64url.find(c);
        if (value == std::string_view::npos) return std::nullopt;
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes += static_cast<char>(bits >> count & 255);
        }
    }
    const bool leftover = count == 6 || (bits & ((1U << count) - 1)) != 0;
    return leftover ? std::nullopt : std::optional(std::move(bytes));
}

std::size_t utf8_length(std::string_view text) noexcept {
    if (text.empty()) return 0;
    const Lead promise = lead(byte(text.front()));
    if (promise.length <= 1) return promise.length;
    if (text.size() < promise.length) return 0;
    if (byte(text[1]) < promise.second_min || byte(text[1]) > promise.second_max) return 0;
    for (std::size_t i = 2; i < promise.length; ++i)
        if ((byte(text[i]) & 0xC0) != 0x80) return 0;
    return promise.length;
}

bool valid_utf8(std::string_view text) noexcept {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string escape(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size());
    while (!bytes.empty()) {
        const std::size_t length = utf8_length(bytes);
        const std::string_view character = bytes.substr(0, length == 0 ? 1 : length);
        if (length == 0 || character == "%" || is_control(character))
            for (const char c : character) append_escaped(text, c);
        else
            text += character;
        bytes.remove_prefix(character.size());
    }
    return text;
}

std::optional<std::string> unescape(std::string_view text) {
    std::string bytes;
    bytes.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            bytes += text[i];
            continue;
        }
        const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
        const int low = high < 0 ? -1 : hex_value(text[i + 2]);
        if (low < 0) return std::nullopt;
        bytes += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return bytes;
}

Result<void> check_text(std::string_view field, std::string_view text, std::size_t max_size) {
    const std::string name(field);
    if (text.size() > max_size)
        return Error(errc::invalid_argument, name + " has " + std::to_string(text.size()) +
                                                 " bytes; use at most " + std::to_string(max_size));
    if (!valid_utf8(text))
        return Error(errc::invalid_argument, name + " is not UTF-8; give it as UTF-8 text");
    return {};
}

}  // namespace dlock::core
