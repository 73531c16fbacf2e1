// SPDX-License-Identifier: Apache-2.0
#include "cli/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "cli/exit_code.hpp"
#include "dlock/options.hpp"

namespace dlock::cli {
namespace {

using std::chrono::milliseconds;

struct Unit {
    std::string_view name;
    double in_ms;
};
constexpr std::array<Unit, 5> units = {{{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}}};

[[noreturn]] void refuse(std::string_view field, std::string_view text, std::string_view why) {
    throw Failure(errc::invalid_argument,
                  std::string(field) + " '" + std::string(text) + "': " + std::string(why));
}

/// The number at the beginning; the rest stays in `text`. Only plain decimals: no sign, exponent, "inf" or
/// "nan".
std::optional<double> take_number(std::string_view& text) {
    if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
    double value = 0;
    const auto [end, problem] =
        std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    if (problem == std::errc::result_out_of_range) value = HUGE_VAL;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

milliseconds checked(std::string_view field, std::string_view text, double in_ms) {
    if (!(in_ms <= static_cast<double>(longest.count()))) refuse(field, text, "at most 365d is possible");
    if (in_ms > 0 && in_ms < 1) refuse(field, text, "less than 1ms is not possible");
    return milliseconds(std::llround(in_ms));
}

}  // namespace

milliseconds parse_duration(std::string_view field, std::string_view text, Least least) {
    if (text.starts_with('-')) refuse(field, text, "a duration cannot be negative");
    std::string_view rest = text;
    const std::optional<double> number = take_number(rest);
    if (!number)
        refuse(field, text, "not a duration; write a number and a unit, such as 30s (ms, s, m, h, d)");
    if (rest.empty())
        refuse(field, text,
               "a duration needs a unit; write for example " + std::string(text) + "s (ms, s, m, h, d)");
    for (const Unit& unit : units) {
        if (rest != unit.name) continue;
        const milliseconds value = checked(field, text, *number * unit.in_ms);
        if (least == Least::more_than_zero && value == milliseconds::zero())
            refuse(field, text, "must be more than zero");
        return value;
    }
    refuse(field, text, "no such unit; the units are ms, s, m, h, d, one of them, without blanks");
}

milliseconds parse_seconds(std::string_view field, std::string_view text) {
    if (text.starts_with('-')) refuse(field, text, "a duration cannot be negative");
    std::string_view rest = text;
    const std::optional<double> number = take_number(rest);
    if (!number || !rest.empty())
        refuse(field, text, "takes plain seconds, such as 2.5; with a unit it is --wait 2.5s");
    return checked(field, text, *number * 1e3);
}

int parse_number(std::string_view field, std::string_view text, int least, int most) {
    int value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size() || value < least || value > most)
        refuse(field, text, "give a number from " + std::to_string(least) + " to " + std::to_string(most));
    return value;
}

std::string human(milliseconds duration) {
    const auto ms = duration.count();
    const auto two = [](auto big, const char* big_unit, auto small, const char* small_unit) {
        std::string text = std::to_string(big) + big_unit;
        return small == 0 ? text : text + " " + std::to_string(small) + small_unit;
    };
    if (ms < 1000) return std::to_string(ms) + " ms";
    const auto s = ms / 1000;
    if (s < 60) return std::to_string(s) + " s";
    if (s < 3600) return two(s / 60, " min", s % 60, " s");
    if (s < 86400) return two(s / 3600, " h", s % 3600 / 60, " min");
    return two(s / 86400, " d", s % 86400 / 3600, " h");
}

}  // namespace dlock::cli
