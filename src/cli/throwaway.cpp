// SPDX-License-Identifier: Apache-2.0
#include "cli/throwaway.hpp"

#include <cstdio>
#include <random>

namespace dlock::cli {

std::string throwaway_name(const std::string& prefix) {
    std::random_device random;
    char digits[17];
    std::snprintf(digits, sizeof digits, "%08x%08x", random(), random());
    return prefix + digits + "/";
}

std::string human(Millis time) {
    const double ms = time.count();
    char text[32];
    if (ms >= 1000)
        std::snprintf(text, sizeof text, "%.1f s", ms / 1000);
    else
        std::snprintf(text, sizeof text, ms < 10 ? "%.2f ms" : "%.1f ms", ms);
    return text;
}

}  // namespace dlock::cli
