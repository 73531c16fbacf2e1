// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <system_error>

namespace dlock {

/// What went wrong, in the words of a lock. `docs/errors.md` maps each to HTTP, gRPC and exit codes.
enum class errc {
    contended = 1,     ///< somebody else holds or waits, and the caller would not wait
    timed_out,         ///< the wait ended; nothing is held and no place in line is left
    cancelled,         ///< the caller's stop_token or the close of the client ended the wait
    lost,              ///< the lease ended without release: expired, forced, flushed
    not_owner,         ///< the LeaseId does not (or no longer) hold the key
    would_deadlock,    ///< the same transaction id already holds the key in this client
    unknown_outcome,   ///< a write was sent, no answer came, and it could not be settled in time
    unavailable,       ///< the store cannot be reached, or is not ready (loading, read-only, no primary)
    unauthorized,      ///< wrong password, or a right is missing
    unsupported,       ///< this store or layout cannot express the request
    invalid_argument,  ///< the caller's input; `detail` names the field and the fix
    limit_differs,     ///< the key exists with another kind or another number of permits
    foreign_record,    ///< a record of another form, or of a newer dlock, is under the key
    not_initialised,   ///< the store's tables are missing; they are never silently made again
    store_error,       ///< the store answered with an error; `detail` has its words (untrusted text)
};

const std::error_category& dlock_category() noexcept;

inline std::error_code make_error_code(errc code) noexcept {
    return {static_cast<int>(code), dlock_category()};
}

/// What a caller may do about an error.
enum class Fault {
    none,           ///< a normal outcome of locking: contended, timed_out, cancelled, lost, not_owner
    retry,          ///< nothing happened; the same call may work later
    indeterminate,  ///< it may or may not have happened; the engine keeps withdrawing in the background
    fatal,          ///< the same call will fail again until somebody changes something
};

/// The fault that goes with a code unless the place of the failure knows better.
Fault default_fault(errc code) noexcept;

/// An error as a value. `detail` is for people; it can hold text of the store, so do not show it to
/// strangers.
struct Error {
    std::error_code code;
    std::string detail;
    Fault fault = Fault::fatal;

    Error(errc c, std::string text)
        : code(make_error_code(c)), detail(std::move(text)), fault(default_fault(c)) {}
    Error(errc c, std::string text, Fault f) : code(make_error_code(c)), detail(std::move(text)), fault(f) {}

    /// "contended: held by web-3 (pid 812) for 12 s"
    [[nodiscard]] std::string message() const;

    friend bool operator==(const Error& error, errc what) noexcept {
        return error.code == make_error_code(what);
    }
};

/// What `Mutex::acquire()` and `Result::value()` throw. `code()` compares with `errc`.
class LockError : public std::system_error {
public:
    explicit LockError(const Error& error)
        : std::system_error(error.code, error.detail), fault_(error.fault) {}
    [[nodiscard]] Fault fault() const noexcept { return fault_; }

private:
    Fault fault_;
};

}  // namespace dlock

template <>
struct std::is_error_code_enum<dlock::errc> : std::true_type {};
