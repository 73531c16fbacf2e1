// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.hpp"

#include <algorithm>

namespace dlock::cli {

int exit_code_of(const std::error_code& code) noexcept {
    if (code.category() != dlock_category()) return exit_code::internal;
    switch (static_cast<errc>(code.value())) {
        case errc::contended:
        case errc::timed_out:
            return exit_code::not_had;
        case errc::cancelled:
            return exit_code::signal_base + 2;
        case errc::lost:
        case errc::not_owner:
            return exit_code::lost;
        case errc::would_deadlock:
        case errc::unsupported:
        case errc::invalid_argument:
            return exit_code::usage;
        case errc::unknown_outcome:
        case errc::unavailable:
        case errc::store_error:
            return exit_code::unavailable;
        case errc::unauthorized:
            return exit_code::no_right;
        case errc::limit_differs:
        case errc::foreign_record:
        case errc::not_initialised:
            return exit_code::configuration;
    }
    return exit_code::internal;
}

std::string name_of(const std::error_code& code) {
    std::string name = code.message();
    std::replace(name.begin(), name.end(), ' ', '_');
    return name;
}

Failure::Failure(const Error& error)
    : std::runtime_error(error.detail.empty() ? error.code.message() : error.detail),
      exit_(exit_code_of(error.code)),
      name_(name_of(error.code)),
      fault_(error.fault) {}

std::string_view to_string(Fault fault) noexcept {
    switch (fault) {
        case Fault::none:
            return "none";
        case Fault::retry:
            return "retry";
        case Fault::indeterminate:
            return "indeterminate";
        case Fault::fatal:
            return "fatal";
    }
    return "fatal";
}

}  // namespace dlock::cli
