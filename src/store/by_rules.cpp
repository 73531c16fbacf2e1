// SPDX-License-Identifier: Apache-2.0
#include "store/by_rules.hpp"

#include <string>

namespace dlock::store {

core::AcquireAsk ask_of(const AcquireRequest& request, std::string_view wake) {
    core::AcquireAsk ask{.attempt = request.attempt,
                         .owner = request.subject->owner,
                         .mode = request.mode,
                         .permits = request.permits,
                         .lease = request.lease,
                         .converts = request.converts,
                         .results = request.results};
    if (request.place.line == Place::Line::none) return ask;
    const bool rejoin = request.place.after_grant == Place::AfterGrant::rejoin;
    using After = core::Standing::AfterGrant;
    ask.standing = core::Standing{.ticket = request.place.ticket,
                                  .lease = request.place.ticket_lease,
                                  .after_grant = rejoin ? After::rejoin : After::leave,
                                  .wake = wake};
    return ask;
}

Done done_of(const core::Done& done, TimePoint now) {
    return {.result = done.result,
            .owner = *done.owner,
            .age = std::chrono::floor<milliseconds>(now - done.at),
            .at = std::chrono::system_clock::time_point(std::chrono::microseconds(done.wall_us))};
}

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
