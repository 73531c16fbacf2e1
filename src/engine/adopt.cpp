// SPDX-License-Identifier: Apache-2.0
/// A grant that was made elsewhere becomes a Lease of this client.
#include <algorithm>
#include <utility>

#include "engine/attempt.hpp"
#include "engine/with_lock.hpp"

namespace dlock::engine {

namespace {

Error ours() { return {errc::invalid_argument, "this client holds it already; share its Lease"}; }

Error gone() {
    return {errc::lost,
            "the store has no grant of this id: it was released, has ended, or is of another store"};
}

}  // namespace

Engine::LeasePtr Engine::make_lease(const store::AcquireRequest& request, const LeaseId::Secret& secret,
                                    store::Granted granted, const AcquireOptions& options,
                                    TimePoint counted_from, TimePoint now, Effects& effects) {
    using core::LeaseMachine;
    const auto renewing = options.renewing == Renewing::automatic ? LeaseMachine::Renewing::automatic
                                                                  : LeaseMachine::Renewing::manual;
    const auto hold_end = options.max_hold == forever ? TimePoint::max() : counted_from + options.max_hold;
    const LeaseMachine machine(request.lease, options.lease, capabilities().skew, renewing, counted_from, now,
                               {.hold_end = hold_end, .progress_within = options.progress_within});
    auto lease = std::make_shared<LeaseState>(*this, request, secret, std::move(granted), machine);
    schedule_.set(*lease, lease->machine.due());
    const auto& [key, owner] = *request.subject;
    if (!owner->txid.empty()) transactions_.emplace(key, lease);
    lease->hold_off = options.hold_off;
    if (options.at_least > options.at_least.zero()) lease->at_least = now + options.at_least;
    tell_of(*lease, Event::Kind::granted, "", effects);
    return lease;
}

bool Engine::has_lease_of(const store::AcquireRequest& request) const {
    bool found = false;
    schedule_.all([&](const Timed& item) {
        const auto* lease = dynamic_cast<const LeaseState*>(&item);
        found = found || (lease != nullptr && lease->grant == request.attempt &&
                          lease->subject->key == request.subject->key);
    });
    return found;
}

/// What the store shows of the grant; `lost` when it shows other holders, or none.
Result<HolderInfo> Engine::holder_of(const Key& key, const store::GrantId& grant) {
    const auto page = inspect({{}, key});
    if (!page) return page.error();
    for (const LockInfo& lock : page->locks)
        for (const HolderInfo& holder : lock.holders)
            if (holder.public_id == core::public_id(grant)) return holder;
    return gone();
}

Result<Engine::LeasePtr> Engine::adopt(const LeaseId& id, const AcquireOptions& options,
                                       const Context& context) {
    if (auto ok = check_acquire(id.key(), options, context); !ok) return std::move(ok).error();
    if (!capabilities().detachable)
        return Error(errc::unsupported, "a lock of this store belongs to the session that took it");
    store::AcquireRequest request;
    request.subject = std::make_shared<const store::Subject>(id.key(), owner_of(context));
    request.attempt = core::grant_id(id.secret());
    request.lease = std::min({options.lease, options.max_hold, options.progress_within});
    bool known = false;
    with_lock([&](TimePoint, Effects&) { known = has_lease_of(request); });
    if (known) return ours();  // before a renewal that could shorten what its Lease counts on
    const TimePoint sent = now();
    const auto answer = ask_renewal({request.subject, request.attempt, request.lease, id.handle()}, sent);
    if (!answer) return answer.error();
    if (answer->renewal == store::Renewal::lost) return gone();
    if (auto ok = renewed(*answer); !ok) return std::move(ok).error();
    const auto holder = holder_of(id.key(), request.attempt);
    if (!holder) return holder.error();
    request.mode = core::mode_of(holder->mode);

    Result<LeasePtr> adopted = gone();
    with_lock([&](TimePoint at, Effects& effects) {
        if (life_ != Life::open) {
            adopted = Error(errc::cancelled, "the client is closed");
        } else if (has_lease_of(request)) {
            adopted = ours();
        } else if (at < core::usable_until(sent, request.lease, capabilities().skew)) {
            store::Granted granted{.fence = holder->fence, .handle = id.handle(), .counted_from = {}};
            adopted = make_lease(request, id.secret(), std::move(granted), options, sent, at, effects);
        }
    });
    return adopted;
}

}  // namespace dlock::engine
