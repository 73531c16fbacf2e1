// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "store/store.hpp"

/// Between the seam and the rules of core/record.hpp, for stores that live on those; and what every store
/// answers in the same words.
namespace dlock::store {

/// `wake`: where the ticket's owner is woken, as long as the ask is used.
core::AcquireAsk ask_of(const AcquireRequest& request, std::string_view wake = {});
Done done_of(const core::Done& done, TimePoint now);

Error kind_differs(core::Kind is, core::Mode wanted);
/// `has` 0: nobody has said yet how many there are.
Error limit_differs(std::uint32_t has, std::uint32_t wanted);
/// The grant to convert has ended.
Error grant_gone();
Result<Configured> configured(const core::ConfigureOutcome& outcome);

}  // namespace dlock::store
