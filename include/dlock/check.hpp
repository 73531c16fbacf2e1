// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace dlock {

/// How much a finding matters.
enum class Severity {
    ok,       ///< as it should be
    note,     ///< a property to know of; nothing to do
    warning,  ///< works, but less well or less safely than it could; or could not be looked at
    problem,  ///< locks do not work, or two callers may hold one, until somebody changes something
};

std::string_view to_string(Severity severity) noexcept;

/// One thing that `Client::check()` looked at. The texts are for people and may hold words of the store.
struct Finding {
    Severity severity = Severity::ok;
    std::string subject;  ///< one or two words: "eviction", "rights"
    std::string text;     ///< what was found, and what follows from it
    std::string fix;      ///< what to do; empty where there is nothing to do

    Finding() = default;
    Finding(Severity how_much, std::string about, std::string found, std::string what_to_do = {})
        : severity(how_much), subject(std::move(about)), text(std::move(found)), fix(std::move(what_to_do)) {}
};

}  // namespace dlock
