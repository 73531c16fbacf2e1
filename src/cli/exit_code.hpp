// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dlock/error.hpp"
#include "dlock/inspect.hpp"

namespace dlock::cli {

/// What `dlock` exits with; the table of `docs/cli.md`.
namespace exit_code {
inline constexpr int ok = 0;
inline constexpr int usage = 64;
inline constexpr int unavailable = 69;
inline constexpr int not_had = 75;
inline constexpr int lost = 76;
inline constexpr int no_right = 77;
inline constexpr int configuration = 78;
inline constexpr int over_limit = 124;
inline constexpr int internal = 125;
inline constexpr int cannot_execute = 126;
inline constexpr int not_found = 127;
inline constexpr int signal_base = 128;
}  // namespace exit_code

/// The exit code of an error of the library; the table of `docs/errors.md`.
int exit_code_of(const std::error_code& code) noexcept;

/// "not_owner": the name of an errc as JSON has it.
std::string name_of(const std::error_code& code);

/// What ends a verb without success; main() prints it and exits with `exit`.
class Failure : public std::runtime_error {
public:
    explicit Failure(const Error& error);
    Failure(errc code, std::string detail) : Failure(Error(code, std::move(detail))) {}
    /// One that the library has no code for.
    Failure(int exit, std::string name, const std::string& detail)
        : std::runtime_error(detail), exit_(exit), name_(std::move(name)) {}

    [[nodiscard]] int exit() const noexcept { return exit_; }
    [[nodiscard]] const std::string& name() const noexcept { return name_; }
    [[nodiscard]] std::string detail() const { return what(); }
    [[nodiscard]] Fault fault() const noexcept { return fault_; }

    /// The lock as it was seen after it was not had, and the command that would free it.
    std::optional<LockInfo> seen;
    std::string free_with;

    void set_exit(int exit) noexcept { exit_ = exit; }

private:
    int exit_;
    std::string name_;
    Fault fault_ = Fault::fatal;
};

std::string_view to_string(Fault fault) noexcept;

/// The value, or the error as a Failure.
template <class T>
T value_or_fail(Result<T> result) {
    if (!result) throw Failure(result.error());
    if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace dlock::cli
