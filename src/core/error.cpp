// SPDX-License-Identifier: Apache-2.0
#include "dlock/error.hpp"

namespace dlock {
namespace {

std::string_view words(errc code) noexcept {
    switch (code) {
        case errc::contended:
            return "contended";
        case errc::timed_out:
            return "timed out";
        case errc::cancelled:
            return "cancelled";
        case errc::lost:
            return "lost";
        case errc::not_owner:
            return "not owner";
        case errc::would_deadlock:
            return "would deadlock";
        case errc::unknown_outcome:
            return "unknown outcome";
        case errc::unavailable:
            return "unavailable";
        case errc::unauthorized:
            return "unauthorized";
        case errc::unsupported:
            return "unsupported";
        case errc::invalid_argument:
            return "invalid argument";
        case errc::limit_differs:
            return "limit differs";
        case errc::foreign_record:
            return "foreign record";
        case errc::not_initialised:
            return "not initialised";
        case errc::store_error:
            return "store error";
    }
    return "unknown error";
}

class Category final : public std::error_category {
public:
    [[nodiscard]] const char* name() const noexcept override { return "dlock"; }
    [[nodiscard]] std::string message(int code) const override {
        return std::string(words(static_cast<errc>(code)));
    }
};

}  // namespace

const std::error_category& dlock_category() noexcept {
    static const Category category;
    return category;
}

Fault default_fault(errc code) noexcept {
    switch (code) {
        case errc::contended:
        case errc::timed_out:
        case errc::cancelled:
        case errc::lost:
        case errc::not_owner:
            return Fault::none;
        case errc::unavailable:
            return Fault::retry;
        case errc::unknown_outcome:
            return Fault::indeterminate;
        case errc::would_deadlock:
        case errc::unauthorized:
        case errc::unsupported:
        case errc::invalid_argument:
        case errc::limit_differs:
        case errc::foreign_record:
        case errc::not_initialised:
        case errc::store_error:
            return Fault::fatal;
    }
    return Fault::fatal;
}

std::string Error::message() const {
    std::string text = code.message();
    if (!detail.empty()) text.append(": ").append(detail);
    return text;
}

}  // namespace dlock
