// SPDX-License-Identifier: Apache-2.0
#include "store/redis/names.hpp"

#include <utility>

#include "core/text.hpp"

namespace dlock::store::redis {
namespace {

constexpr std::string_view record_start = "dlock:{";

void append_escaped(std::string& escaped, std::string_view key) {
    for (const char c : key) {
        if (c == '{')
            escaped += "%7B";
        else if (c == '}')
            escaped += "%7D";
        else if (c == '%')
            escaped += "%25";
        else
            escaped += c;
    }
}

std::string escape_key(std::string_view key) {
    std::string escaped;
    append_escaped(escaped, key);
    return escaped;
}

}  // namespace

Names::Names(std::string_view key) {
    record.reserve(key.size() + 16);
    record.append(record_start);
    append_escaped(record, key);
    record += '}';
    add_parts();
}

Names Names::of_record(std::string name) {
    Names names{std::string_view()};
    names.record = std::move(name);
    names.add_parts();
    return names;
}

void Names::add_parts() {
    for (const auto& [part, end] : {std::pair(&line, ":line"), std::pair(&tickets, ":tickets")}) {
        part->clear();
        part->reserve(record.size() + 8);
        part->append(record).append(end);
    }
}

std::optional<std::string> key_of(std::string_view record_name) {
    if (!record_name.starts_with(record_start) || !record_name.ends_with('}')) return std::nullopt;
    const std::string_view inner =
        record_name.substr(record_start.size(), record_name.size() - record_start.size() - 1);
    std::optional<std::string> key = core::unescape(inner);
    // Other spellings of the same bytes belong to no key.
    if (!key || key->empty() || escape_key(*key) != inner) return std::nullopt;
    return key;
}

std::string glob_escape(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') escaped += '\\';
        escaped += c;
    }
    return escaped;
}

std::string record_pattern(std::string_view prefix) {
    return std::string(record_start) + glob_escape(escape_key(prefix)) + "*}";
}

template <class Id>
std::optional<Id> id_from_hex(std::string_view hex) {
    Id id;
    if (hex.size() != 2 * id.bytes.size()) return std::nullopt;
    for (std::size_t i = 0; i < id.bytes.size(); ++i) {
        const int high = core::hex_value(hex[2 * i]);
        const int low = core::hex_value(hex[2 * i + 1]);
        if (high < 0 || low < 0) return std::nullopt;
        id.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
    }
    // Upper case would be another token with the same bytes.
    if (id.hex() != hex) return std::nullopt;
    return id;
}
template std::optional<core::GrantId> id_from_hex(std::string_view hex);
template std::optional<core::TicketId> id_from_hex(std::string_view hex);

std::string public_id_of_token(std::string_view token) {
    const auto own = id_from_hex<core::GrantId>(token);
    return own ? core::public_id(*own) : core::public_id(token);
}

}  // namespace dlock::store::redis
