// SPDX-License-Identifier: Apache-2.0
#include "core/validity.hpp"

#include <algorithm>

#include "core/planted.hpp"

namespace dlock::core {

using namespace std::chrono_literals;

nanoseconds margin(milliseconds lease, milliseconds skew) noexcept {
    if (planted(Planted::margin_ignored)) return 0ns;
    const nanoseconds l = lease;
    return std::max(std::clamp<nanoseconds>(l / 20, 10ms, 500ms), l / 1000) + skew;
}

TimePoint usable_until(TimePoint sent, milliseconds lease, milliseconds skew) noexcept {
    return sent + lease - margin(lease, skew);
}

}  // namespace dlock::core
