// SPDX-License-Identifier: Apache-2.0
#include "dlock/check.hpp"
#include "dlock/scan.hpp"

namespace dlock {

std::string_view to_string(Severity severity) noexcept {
    switch (severity) {
        case Severity::ok:
            return "ok";
        case Severity::note:
            return "note";
        case Severity::warning:
            return "warning";
        case Severity::problem:
            return "problem";
    }
    return "?";
}

std::string_view to_string(FoundLock::Sure sure) noexcept {
    switch (sure) {
        case FoundLock::Sure::certain:
            return "certain";
        case FoundLock::Sure::likely:
            return "likely";
        case FoundLock::Sure::perhaps:
            return "perhaps";
    }
    return "?";
}

}  // namespace dlock
