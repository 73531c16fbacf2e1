// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace dlock::engine {

/// Grows by one in each forked child, so that objects of the parent know that they are inert.
/// One relaxed atomic read; the first call in a process installs the handler.
unsigned fork_generation() noexcept;

}  // namespace dlock::engine
