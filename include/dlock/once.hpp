// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "dlock/inspect.hpp"
#include "dlock/lease.hpp"
#include "dlock/options.hpp"

namespace dlock {

/// Work that is done once, and whose result those get who come later: `Client::once` and
/// `Client::single_flight`. For a key of its own: who locks the key otherwise does not see the result.
struct OnceOptions {
    /// For how long the result counts, from the end of the work, by the store's clock; then the next caller
    /// runs it anew. Who ran it decides. Not set: 24 h for `once`, 1 s for `single_flight`. 1 ms to 365 days.
    std::optional<std::chrono::milliseconds> keep = std::nullopt;

    /// Of the lock under which the work runs. `wait` not set: for as long as it takes. `nested` cannot be
    /// `join`, since the result is left by a release.
    AcquireOptions lock{};

    /// `invalid_argument` naming the field.
    [[nodiscard]] Result<void> validate() const;
};
static_assert(std::is_trivially_destructible_v<OnceOptions>);

/// What work that is done once came to.
struct Outcome {
    std::string result;                ///< as the work returned it
    bool ran = false;                  ///< by this call; else by another one, before it or while it waited
    Owner by;                          ///< who ran it
    std::chrono::milliseconds age{0};  ///< since its end, by the store's clock; 0 when this call ran it
    std::chrono::system_clock::time_point at;  ///< its end, for display; epoch when this call ran it
};

/// How `Client::start_once` begins: with the lock, under which to do the work and call `Lease::finish`, or
/// with what it came to elsewhere.
using OnceStart = std::variant<Lease, Outcome>;

}  // namespace dlock
