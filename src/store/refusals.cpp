// SPDX-License-Identifier: Apache-2.0
#include "store/refusals.hpp"

#include <string>

namespace dlock::store {

Error kind_differs(core::Kind is, core::Mode wanted) {
    return {errc::limit_differs, "the key is in use as " + std::string(core::to_string(is)) + ", not as " +
                                     std::string(core::to_string(core::kind_of(wanted)))};
}

Error limit_differs(std::uint32_t has, std::uint32_t wanted) {
    if (has == 0)
        return {errc::limit_differs,
                "permits: nobody has said how many this key has; name a number, or configure it"};
    return {errc::limit_differs, "permits: the key has " + std::to_string(has) + ", not " +
                                     std::to_string(wanted) + "; ask for that many, or configure it"};
}

Error grant_gone() { return {errc::lost, "the store no longer has the grant"}; }

Result<Configured> configured(const core::ConfigureOutcome& outcome) {
    if (outcome.what == core::ConfigureOutcome::What::kind_differs)
        return Error(errc::limit_differs, "the key is in use as another kind, not as permits");
    return Configured{.changed = outcome.what == core::ConfigureOutcome::What::changed,
                      .permits = outcome.permits};
}

}  // namespace dlock::store
