// SPDX-License-Identifier: Apache-2.0
#include "engine/describe.hpp"

#include <chrono>

namespace dlock::engine {

namespace {

std::string in_words(std::chrono::milliseconds time) {
    if (time < std::chrono::seconds(10)) return std::to_string(time.count()) + " ms";
    return std::to_string(time.count() / 1000) + " s";
}

}  // namespace

std::string describe(const HolderInfo& holder) {
    const auto& owner = holder.owner;
    std::string text = owner.service.empty() ? "somebody" : owner.service;
    if (!owner.host.empty()) text += " on " + owner.host;
    if (owner.pid != 0) text += " (pid " + std::to_string(owner.pid) + ")";
    if (holder.held_for) text += " for " + in_words(*holder.held_for);
    if (holder.expires_in) text += ", free in " + in_words(*holder.expires_in) + " unless renewed";
    if (!owner.note.empty()) text += "; note: " + owner.note;
    return text;
}

Error with_holder(Error error, const std::optional<HolderInfo>& holder) {
    if (holder && (error == errc::timed_out || error == errc::contended))
        error.detail += "; held by " + describe(*holder);
    return error;
}

}  // namespace dlock::engine
