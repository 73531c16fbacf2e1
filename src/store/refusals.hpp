// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "store/store.hpp"

/// What every store answers in the same words.
namespace dlock::store {

Error kind_differs(core::Kind is, core::Mode wanted);
/// `has` 0: nobody has said yet how many there are.
Error limit_differs(std::uint32_t has, std::uint32_t wanted);
/// The grant to convert has ended.
Error grant_gone();
Result<Configured> configured(const core::ConfigureOutcome& outcome);

}  // namespace dlock::store
