// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace dlock::core {

/// What a key is for as long as it is remembered; another kind is refused.
enum class Kind : std::uint8_t { mutex, read_write, permits };
std::string_view to_string(Kind kind) noexcept;

/// As what a key is held, or waited for.
enum class Mode : std::uint8_t {
    exclusive,  ///< of a mutex
    write,      ///< of a read-write key, alone
    shared,     ///< of a read-write key, beside other readers
    permit,     ///< one of the permits of a permits key
};
std::string_view to_string(Mode mode) noexcept;
/// Of its name; exclusive where that is not one.
Mode mode_of(std::string_view name) noexcept;

constexpr Kind kind_of(Mode mode) noexcept {
    switch (mode) {
        case Mode::exclusive:
            break;
        case Mode::write:
        case Mode::shared:
            return Kind::read_write;
        case Mode::permit:
            return Kind::permits;
    }
    return Kind::mutex;
}

/// Nobody else beside it.
constexpr bool alone(Mode mode) noexcept { return mode == Mode::exclusive || mode == Mode::write; }

}  // namespace dlock::core
