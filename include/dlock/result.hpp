// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "dlock/error.hpp"

namespace dlock {

/// A value or an Error. The member names are a subset of `std::expected`, so it can become an alias of it.
/// Only `value()` throws (LockError).
template <class T>
class [[nodiscard]] Result {
public:
    using value_type = T;

    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(*-explicit-*)
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(*-explicit-*)

    [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    [[nodiscard]] T& operator*() & noexcept { return *std::get_if<0>(&state_); }
    [[nodiscard]] const T& operator*() const& noexcept { return *std::get_if<0>(&state_); }
    [[nodiscard]] T&& operator*() && noexcept { return std::move(*std::get_if<0>(&state_)); }
    [[nodiscard]] T* operator->() noexcept { return std::get_if<0>(&state_); }
    [[nodiscard]] const T* operator->() const noexcept { return std::get_if<0>(&state_); }

    [[nodiscard]] T& value() & {
        throw_if_error();
        return **this;
    }
    [[nodiscard]] const T& value() const& {
        throw_if_error();
        return **this;
    }
    [[nodiscard]] T&& value() && {
        throw_if_error();
        return std::move(**this);
    }

    [[nodiscard]] const Error& error() const& noexcept { return *std::get_if<1>(&state_); }
    [[nodiscard]] Error&& error() && noexcept { return std::move(*std::get_if<1>(&state_)); }

private:
    void throw_if_error() const {
        if (!has_value()) throw LockError(error());
    }
    std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
public:
    using value_type = void;

    Result() = default;
    Result(Error error) : error_(std::move(error)) {}  // NOLINT(*-explicit-*)

    [[nodiscard]] bool has_value() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return has_value(); }
    void value() const {
        if (error_) throw LockError(*error_);
    }
    [[nodiscard]] const Error& error() const& noexcept { return *error_; }
    [[nodiscard]] Error&& error() && noexcept { return std::move(*error_); }

private:
    std::optional<Error> error_;
};

}  // namespace dlock
