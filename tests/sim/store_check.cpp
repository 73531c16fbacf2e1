// SPDX-License-Identifier: Apache-2.0
#include "sim/store_check.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace dlock::sim {

std::string short_id(std::string_view raw) { return core::to_hex(raw.substr(0, 3)); }

void StoreCheck::acquire_sent(int client, const store::AcquireRequest& request, int errand) {
    const std::string& key = request.subject->key.bytes();
    Grant& grant = grants_[request.attempt];
    grant.id = request.attempt;
    grant.client = client;
    grant.errand = errand;
    grant.key = key;
    if (grant.given_up) world_.violated("asked_after_end", "an id that was given up is asked for again");
    if (request.place.line == store::Place::Line::join) ticket_kept(client, key, request.place.ticket);
}

void StoreCheck::ticket_kept(int client, const std::string& key, const TicketId& ticket) {
    Place& place = places_[ticket];
    place.client = client;
    place.key = key;
    place.kept = world_.now();
    if (place.given_up && *place.given_up < world_.now())
        world_.violated("kept_after_end", "a ticket that was given up is used again");
}

void StoreCheck::release_sent(const store::ReleaseRequest& request) {
    if (const auto grant = grants_.find(request.attempt); grant != grants_.end())
        grant->second.given_up = true;
    if (!request.ticket) return;
    if (const auto place = places_.find(*request.ticket); place != places_.end())
        place->second.given_up = place->second.given_up.value_or(world_.now());
}

/// Settles what ended since the step before.
void StoreCheck::look(const std::string& key, const core::Record& record) {
    OfKey& of = keys_[key];
    const auto holders = of.holders;
    for (const auto& [id, mode] : holders) {
        const Grant& grant = grants_.at(id);
        if (grant.expires > world_.now()) continue;
        if (ran_out) ran_out(grant);
        end(of, id, grant.expires);
    }
    for (const core::Ticket& ticket : record.tickets) {
        const auto place = places_.find(ticket.id);
        if (ticket.expires <= world_.now() && place != places_.end() && place_ran_out)
            place_ran_out(place->second, ticket);
    }
}

void StoreCheck::end(OfKey& of, const GrantId& id, TimePoint when) {
    grants_.at(id).live = false;
    of.holders.erase(id);
    of.free_since = std::max(of.free_since, when);
}

void StoreCheck::acquired(const Step& step, const core::AcquireAsk& ask, const core::AcquireOutcome& outcome,
                          Origin from) {
    look(step.key, step.before);
    const OfKey& of = keys_[step.key];
    const bool granted_now = outcome.what == core::Acquiring::granted;
    if (of.holders.contains(ask.attempt)) {
        if (!granted_now || outcome.fence != *grants_.at(ask.attempt).fence)
            world_.violated("grant_not_recognised", "a repeated acquire did not get its own grant again");
    } else if (granted_now) {
        granted(step, ask, outcome.fence, from);
    }
    if (outcome.what == core::Acquiring::queued) {
        Place& place = places_[ask.standing->ticket];
        place.phantom = from.copy == Origin::Copy::repeated;
    }
    check_after(step);
}

void StoreCheck::granted(const Step& step, const core::AcquireAsk& ask, Fence fence, Origin from) {
    OfKey& of = keys_[step.key];
    const bool alone =
        core::alone(ask.mode) || std::any_of(of.holders.begin(), of.holders.end(),
                                             [](const auto& one) { return core::alone(one.second); });
    const std::size_t room = alone ? 1 : ask.mode == core::Mode::permit ? ask.permits : SIZE_MAX;
    if (of.holders.size() >= room) {
        world_.violated("two_grants", "the store has granted " + step.key + " before the last grant ended");
        for (const auto& [id, mode] : std::map(of.holders)) end(of, id, world_.now());
    }
    check_order(step, ask);
    if (fence.value <= of.last_fence)
        world_.violated("fence_not_higher", std::to_string(fence.value) + " after " +
                                                std::to_string(of.last_fence) + " on " + step.key);
    of.last_fence = fence.value;
    of.by_clock_alone = false;
    of.holders.emplace(ask.attempt, ask.mode);
    Grant& grant = grants_[ask.attempt];
    grant.fence = fence;
    ++grant.times;
    grant.expires = world_.now() + ask.lease;
    grant.live = true;
    grant.excused = false;
    grant.phantom = from.copy == Origin::Copy::repeated;
    if (grant.phantom && ask.standing) places_[ask.standing->ticket].phantom = true;
}

void StoreCheck::check_order(const Step& step, const core::AcquireAsk& ask) {
    std::size_t ahead = 0;
    bool overtakes = false;
    for (const core::Ticket& ticket : step.before.tickets) {
        if (ticket.expires <= world_.now()) continue;
        if (ask.standing && ticket.id == ask.standing->ticket) break;
        ++ahead;
        overtakes = overtakes || core::alone(ask.mode) || core::alone(ticket.mode);
    }
    if (ask.mode == core::Mode::permit) overtakes = live(step.before).size() + ahead >= ask.permits;
    if (overtakes) world_.violated("overtaken", std::to_string(ahead) + " were ahead for " + step.key);
}

std::set<GrantId> StoreCheck::live(const core::Record& record) const {
    std::set<GrantId> ids;
    for (const core::Holder& holder : record.holders)
        if (holder.expires > world_.now()) ids.insert(holder.id);
    return ids;
}

/// What the record says now must be what the simulation reckons.
void StoreCheck::check_after(const Step& step) {
    const OfKey& of = keys_[step.key];
    const std::set<GrantId> holding = live(step.after);
    const bool same = holding.size() == of.holders.size() &&
                      std::all_of(holding.begin(), holding.end(),
                                  [&](const GrantId& id) { return of.holders.contains(id); });
    if (!same)
        return world_.violated("wrong_holder",
                               "the record of " + step.key + " does not have the holders it must have");
    for (const core::Holder& holder : step.after.holders)
        if (holding.contains(holder.id) && holder.expires != grants_.at(holder.id).expires)
            world_.violated("wrong_expiry", "the grant of " + step.key + " does not end when it must");
    const auto& line = step.after.tickets;
    const auto earlier = [](const auto& a, const auto& b) { return a.arrival < b.arrival; };
    if (!std::is_sorted(line.begin(), line.end(), earlier))
        world_.violated("overtaken", "the line of " + step.key + " is not in order of arrival");
}

void StoreCheck::renewed(const Step& step, const GrantId& id, milliseconds lease, bool yes) {
    look(step.key, step.before);
    const bool live = keys_[step.key].holders.contains(id);
    if (yes && !live) world_.violated("ended_grant_renewed", "of " + step.key);
    if (!yes && live) world_.violated("live_grant_not_renewed", "of " + step.key);
    if (live) grants_.at(id).expires = world_.now() + lease;
    check_after(step);
}

void StoreCheck::released(const Step& step, const GrantId& id, bool yes) {
    look(step.key, step.before);
    OfKey& of = keys_[step.key];
    const bool live = of.holders.contains(id);
    if (yes != live) world_.violated("release_answered_wrong", "of " + step.key);
    if (live) {
        grants_.at(id).released = true;
        end(of, id, world_.now());
    }
    check_after(step);
}

void StoreCheck::forced(const Step& step, const GrantId& id) {
    look(step.key, step.before);
    OfKey& of = keys_[step.key];
    if (of.holders.contains(id)) {
        grants_.at(id).excused = true;
        end(of, id, world_.now());
    }
    check_after(step);
}

/// Everything is forgotten. Fences go on rising only if the wall clock did, and nothing else is promised.
void StoreCheck::flushed(std::uint64_t wall_us) {
    for (auto& [key, of] : keys_) {
        for (const auto& [id, mode] : std::map(of.holders)) {
            grants_.at(id).excused = true;
            end(of, id, world_.now());
        }
        if (of.last_fence >= wall_us) of.last_fence = 0;
        of.by_clock_alone = true;
    }
}

void StoreCheck::clock_stepped_back() {
    for (auto& [key, of] : keys_)
        if (of.by_clock_alone) of.last_fence = 0;
}

const Grant* StoreCheck::find(const GrantId& id) const {
    const auto found = grants_.find(id);
    return found == grants_.end() ? nullptr : &found->second;
}

const Place* StoreCheck::find(const TicketId& id) const {
    const auto found = places_.find(id);
    return found == places_.end() ? nullptr : &found->second;
}

std::optional<TimePoint> StoreCheck::free_since(const std::string& key) const {
    const auto found = keys_.find(key);
    if (found == keys_.end()) return TimePoint{};
    TimePoint since = found->second.free_since;
    for (const auto& [id, mode] : found->second.holders) {
        const TimePoint end = grants_.at(id).expires;
        if (end > world_.now()) return std::nullopt;
        since = std::max(since, end);
    }
    return since;
}

}  // namespace dlock::sim
