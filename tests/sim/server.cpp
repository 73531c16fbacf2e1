// SPDX-License-Identifier: Apache-2.0
#include "sim/server.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "store/by_rules.hpp"

namespace dlock::sim {

using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t wall_start_us = 1'800'000'000'000'000;

std::optional<HolderInfo> describe(const core::Record& record, TimePoint now) {
    const core::Holder* holder = core::live_holder(record, now);
    if (holder == nullptr) return std::nullopt;
    HolderInfo info;
    info.public_id = core::public_id(holder->id);
    info.expires_in = std::chrono::ceil<milliseconds>(holder->expires - now);
    return info;
}

}  // namespace

std::uint64_t Server::wall_us() const {
    const auto since =
        std::chrono::duration_cast<std::chrono::microseconds>(world_.now().time_since_epoch() + wall_offset_);
    return wall_start_us + static_cast<std::uint64_t>(since.count());
}

store::AcquireAnswer Server::acquire(const store::AcquireRequest& request, Origin from) {
    const std::string& key = request.subject->key.bytes();
    core::Record& record = records_[key];
    const core::Record before = record;
    const core::AcquireAsk ask = store::ask_of(request);
    const auto outcome = core::acquire(record, ask, {world_.now(), wall_us()}, floor_);
    check_.acquired({key, before, record}, ask, outcome, from);
    world_.log("  store: ", key, " acquire ", short_id(ask.attempt.raw()), " of client ", from.client,
               from.copy == Origin::Copy::repeated ? " (repeated)" : "",
               outcome.what == core::Acquiring::granted  ? ": granted"
               : outcome.what == core::Acquiring::queued ? ": queued"
                                                         : ": contended");
    switch (outcome.what) {
        case core::Acquiring::granted:
            return store::Granted{.fence = outcome.fence, .handle = {}, .counted_from = {}};
        case core::Acquiring::queued:
            return store::Queued{.holder = describe(record, world_.now()), .place = outcome.ahead};
        case core::Acquiring::contended:
            break;
        case core::Acquiring::done:
        case core::Acquiring::lost:
        case core::Acquiring::kind_differs:
        case core::Acquiring::limit_differs:
            return Error(errc::limit_differs, "not asked for here");
    }
    store::Contended contended{.holder = describe(record, world_.now()), .retry_in = {}};
    if (contended.holder) contended.retry_in = contended.holder->expires_in;
    return contended;
}

store::RenewAnswer Server::renew(const store::RenewItem& item) {
    const std::string& key = item.subject->key.bytes();
    core::Record& record = records_[key];
    const core::Record before = record;
    store::RenewAnswer answer;
    if (const auto* grant = std::get_if<GrantId>(&item.id)) {
        const bool yes = core::renew_lease(record, *grant, item.lease, world_.now());
        check_.renewed({key, before, record}, *grant, item.lease, yes);
        answer.renewal = yes ? store::Renewal::renewed : store::Renewal::lost;
    } else {
        const auto& ticket = std::get<TicketId>(item.id);
        check_.look(key, before);
        const auto outcome = core::renew_ticket(record, ticket, item.lease, world_.now());
        answer.renewal = outcome.alive ? store::Renewal::renewed : store::Renewal::lost;
        answer.turn = outcome.turn;
        answer.holder_left = outcome.holder_left;
    }
    return answer;
}

store::Released Server::release(const store::ReleaseRequest& request) {
    const std::string& key = request.subject->key.bytes();
    core::Record& record = records_[key];
    const core::Record before = record;
    const auto outcome =
        core::release(record, request.attempt, request.ticket, request.after, {world_.now(), wall_us()});
    check_.released({key, before, record}, request.attempt, outcome.released);
    world_.log("  store: ", key, " release ", short_id(request.attempt.raw()),
               request.ticket ? " and ticket " + short_id(request.ticket->raw()) : "",
               outcome.released ? ": released" : ": not owner");
    wake(outcome.wake);
    return outcome.released ? store::Released::released : store::Released::not_owner;
}

bool Server::holds(const std::string& key, const GrantId& id) {
    const auto& holders = records_[key].holders;
    return std::any_of(holders.begin(), holders.end(), [&](const core::Holder& holder) {
        return holder.id == id && world_.now() < holder.expires;
    });
}

void Server::subscribe(int client, const std::string& key, const TicketId& ticket, Task push) {
    unsubscribe(client, ticket);
    subscriptions_.push_back({client, ticket, std::move(push)});
    core::Record& record = records_[key];
    check_.look(key, record);
    for (const core::Ticket& next : core::turns(record, world_.now()))
        if (next.id == ticket) wake(ticket);
}

void Server::unsubscribe(int client, const TicketId& ticket) {
    std::erase_if(subscriptions_, [&](const auto& s) { return s.client == client && s.ticket == ticket; });
}

void Server::unsubscribe_all(int client) {
    std::erase_if(subscriptions_, [&](const auto& s) { return s.client == client; });
}

void Server::wake(const std::vector<core::Ticket>& tickets) {
    for (const core::Ticket& ticket : tickets) wake(ticket.id);
}

void Server::wake(const TicketId& ticket) {
    for (const Subscription& one : subscriptions_)
        if (one.ticket == ticket) one.push();
}

void Server::flush() {
    for (const auto& [key, record] : records_) check_.look(key, record);
    records_.clear();
    floor_ = 0;
    check_.flushed(wall_us());
    world_.log("  store: flushed");
}

void Server::step_wall_clock(nanoseconds by) {
    wall_offset_ += by;
    if (by < 0ns) check_.clock_stepped_back();
}

void Server::clean_up() {
    std::erase_if(records_, [&](const auto& entry) {
        if (core::idle_since(entry.second) > world_.now()) return false;
        check_.look(entry.first, entry.second);
        floor_ = std::max(floor_, entry.second.last_fence);
        return true;
    });
}

void Server::force_release(const std::string& key) {
    core::Record& record = records_[key];
    const core::Record before = record;
    const core::Holder* holder = core::live_holder(record, world_.now());
    if (holder == nullptr) return;
    const GrantId id = holder->id;
    const auto outcome = core::force_release(record, core::public_id(id), world_.now());
    check_.forced({key, before, record}, id);
    world_.log("  store: ", key, " forced");
    wake(outcome.wake);
}

void Server::each(const std::function<void(const std::string& key, core::Record& record)>& visit) {
    for (auto& [key, record] : records_) visit(key, record);
}

}  // namespace dlock::sim
