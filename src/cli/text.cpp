// SPDX-License-Identifier: Apache-2.0
#include "cli/text.hpp"

#include <algorithm>

#include "cli/units.hpp"

namespace dlock::cli {
namespace {

bool plain(char c) noexcept {
    constexpr std::string_view safe = "%+,-./:=@_";
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           safe.find(c) != std::string_view::npos;
}

/// The length of the UTF-8 character at the beginning, 0 for none (overlong forms and surrogates are none).
std::size_t character(std::string_view text) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((byte(i) & 0xC0U) != 0x80) return 0;
    const unsigned next = byte(1);
    const bool overlong = (lead == 0xE0 && next < 0xA0) || (lead == 0xF0 && next < 0x90);
    const bool outside = (lead == 0xED && next > 0x9F) || (lead == 0xF4 && next > 0x8F);
    return overlong || outside ? 0 : size;
}

void append_escaped(std::string& out, std::string_view bytes) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        out += '%';
        out += digits[byte >> 4U];
        out += digits[byte & 0xFU];
    }
}

/// C0, DEL and C1 controls, and the marks that reorder a line.
bool moves_cursor(std::string_view c) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(c[i]); };
    if (c.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
    if (c.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
    const bool bidi = c.size() == 3 && byte(0) == 0xE2 &&
                      ((byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) ||
                       (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9));
    return bidi;
}

}  // namespace

std::string shell_quote(std::string_view text) {
    if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'')
            quoted += "'\\''";
        else
            quoted += c;
    }
    return quoted + "'";
}

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t size = character(text);
        const std::string_view c = text.substr(0, std::max<std::size_t>(size, 1));
        if (size == 0 || moves_cursor(c))
            append_escaped(out, c);
        else
            out += c;
        text.remove_prefix(c.size());
    }
    return out;
}

std::string utf8(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t size = character(text);
        out += size == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, size);
        text.remove_prefix(std::max<std::size_t>(size, 1));
    }
    return out;
}

std::string describe(const Owner& owner) {
    std::string text = owner.service;
    if (!owner.host.empty()) text += (text.empty() ? "" : "@") + owner.host;
    if (owner.pid != 0)
        text += (text.empty() ? "pid " : " (pid ") + std::to_string(owner.pid) + (text.empty() ? "" : ")");
    return text.empty() ? "an unnamed owner" : printable(text);
}

std::string describe(const HolderInfo& holder) {
    std::string text = holder.mode == "shared"   ? "read by "
                       : holder.mode == "permit" ? "held (a permit) by "
                                                 : "held by ";
    if (holder.held_off) text = "held off after the work of ";
    text += describe(holder.owner);
    if (holder.held_off && holder.expires_in) text += ", free in " + human(*holder.expires_in);
    if (holder.held_off) return text;
    if (holder.held_for) text += " for " + human(*holder.held_for);
    if (holder.expires_in) text += ", free in " + human(*holder.expires_in) + " unless renewed";
    if (!holder.owner.note.empty()) text += ", \"" + printable(holder.owner.note) + "\"";
    return text;
}

std::string describe(const LockInfo& lock) {
    if (!lock.problem.empty()) return "the record has a problem: " + printable(lock.problem);
    if (lock.holders.empty())
        return lock.waiter_count == 0 ? "free by now" : "free by now, others are in line";
    std::string text = describe(lock.holders.front());
    if (lock.holders.size() > 1) text += " and " + std::to_string(lock.holders.size() - 1) + " more";
    if (lock.permits)
        text +=
            ", " + std::to_string(lock.holders.size()) + " of " + std::to_string(*lock.permits) + " permits";
    if (lock.waiter_count > 0) text += "; " + std::to_string(lock.waiter_count) + " in line";
    return text;
}

std::string describe(const Key& key, const Outcome& outcome) {
    std::string text =
        key.text() + " was done by " + describe(outcome.by) + ", " + human(outcome.age) + " ago";
    if (!outcome.by.note.empty()) text += ", \"" + printable(outcome.by.note) + "\"";
    return text;
}

}  // namespace dlock::cli
