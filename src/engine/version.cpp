// SPDX-License-Identifier: Apache-2.0
#include "dlock/client.hpp"

namespace dlock {

std::string_view version() noexcept { return DLOCK_VERSION; }

}  // namespace dlock
