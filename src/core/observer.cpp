// SPDX-License-Identifier: Apache-2.0
#include "dlock/observer.hpp"

namespace dlock {

std::string_view to_string(Event::Kind kind) noexcept {
    switch (kind) {
        case Event::Kind::waiting:
            return "waiting";
        case Event::Kind::granted:
            return "granted";
        case Event::Kind::renewed:
            return "renewed";
        case Event::Kind::late:
            return "late";
        case Event::Kind::lost:
            return "lost";
        case Event::Kind::released:
            return "released";
        case Event::Kind::forced:
            return "forced";
    }
    return "unknown";
}

}  // namespace dlock
