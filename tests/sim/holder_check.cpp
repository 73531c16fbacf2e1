// SPDX-License-Identifier: Apache-2.0
#include "sim/holder_check.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/ids.hpp"
#include "core/validity.hpp"

namespace dlock::sim {

using namespace std::chrono_literals;

namespace {

/// From the end of a lease until a running client's user has been told: some turns of its threads.
constexpr nanoseconds told_within = 5ms;
/// Turns and drift on top of what an acquisition may take.
constexpr nanoseconds slack = 50ms;
/// With a calm network a free lock finds its waiter: the dead ahead of it cost one ticket lease together, and
/// then it looks within 2 s.
constexpr nanoseconds found_within = 8s;

/// Whoever waits looks at its key every 1 to 2 s, and keeps its place by that.
constexpr nanoseconds kept_every = 3s;

/// What is told of each grant must make sense: granted, then perhaps renewed and late, then one end.
class EventCheck final : public Observer {
public:
    EventCheck(World& world, int client) : world_(world), client_(client) {}

    void on_event(const Event& event) noexcept override {
        using Kind = Event::Kind;
        if (event.kind == Kind::waiting || event.kind == Kind::forced) return;
        const bool first = event.kind == Kind::granted;
        const bool end = event.kind == Kind::lost || event.kind == Kind::released;
        bool right = false;
        if (first)
            right = live_.insert(event.public_id).second;
        else if (end)
            right = live_.erase(event.public_id) == 1;
        else
            right = live_.contains(event.public_id);
        if (!right)
            world_.violated("wrong_event", "client " + std::to_string(client_) + " is told '" +
                                               std::string(to_string(event.kind)) + "' out of turn");
    }

private:
    World& world_;
    int client_;
    std::set<std::string> live_;
};

std::string name(const Errand& errand) {
    return "errand " + std::to_string(errand.number) + " of client " + std::to_string(errand.client) +
           " on " + errand.key;
}

int number_in(const Owner& owner) { return std::atoi(owner.biz_id.c_str()); }

}  // namespace

HolderCheck::HolderCheck(World& world, StoreCheck& store, const Plan& plan)
    : world_(world), store_(store), plan_(plan) {
    store_.ran_out = [this](const Grant& grant) { grant_ran_out(grant); };
    store_.place_ran_out = [this](const Place& place, const core::Ticket& ticket) {
        place_ran_out(place, ticket);
    };
}

ErrandPtr HolderCheck::add(int client, std::shared_ptr<Process> process) {
    auto errand = std::make_shared<Errand>();
    errand->number = ++last_number_;
    errand->client = client;
    errand->started = world_.now();
    errand->started_own = process->now();
    errand->process = process;
    processes_[client] = std::move(process);
    errands_.push_back(errand);
    world_.after(0ns, [this, errand] { check_deadline(errand); });
    return errand;
}

void HolderCheck::forget(const ErrandPtr& errand) { std::erase(errands_, errand); }

void HolderCheck::client_gone(int client) {
    std::erase_if(errands_, [&](const ErrandPtr& errand) { return errand->client == client; });
    processes_.erase(client);
}

const Process* HolderCheck::process_of(int client) const {
    const auto found = processes_.find(client);
    return found == processes_.end() ? nullptr : found->second.get();
}

std::shared_ptr<Observer> HolderCheck::observer(int client) {
    return std::make_shared<EventCheck>(world_, client);
}

// --- acquisitions ------------------------------------------------------------------------------------

/// When an acquisition is to be over, pauses of its process aside.
TimePoint HolderCheck::must_end_by(const Errand& errand) const {
    const nanoseconds call = plan_.options.call_timeout;
    const nanoseconds settle = core::settle_within(errand.options.lease);
    const auto wait = errand.options.wait.value_or(0ms);
    TimePoint end = TimePoint::max();
    if (wait == 0ms)
        end = errand.started + call;
    else if (wait != forever)
        end = errand.started + wait + call / 4;
    if (errand.cancelled) end = std::min(end, *errand.cancelled + call);
    if (end == TimePoint::max()) return end;
    return std::max(end, errand.process->running_since()) + settle + call / 4 + slack;
}

void HolderCheck::check_deadline(const ErrandPtr& errand) {
    if (!errand->pending() || !errand->process->alive()) return;
    const TimePoint end = must_end_by(*errand);
    if (world_.now() >= end && errand->process->running())
        return world_.violated("too_late", name(*errand) + " is not over in time");
    const TimePoint next = std::min(std::max(end, world_.now() + 1ms), world_.now() + 500ms);
    world_.at(next, [this, errand] { check_deadline(errand); });
}

void HolderCheck::completed(const ErrandPtr& errand, const Result<Lease>& result) {
    if (++errand->completions > 1) world_.violated("completed_twice", name(*errand));
    errand->completed = world_.now();
    if (result) errand->grant = core::grant_id(result->id().secret());
    ended_[errand->number] = {world_.now(), errand->grant};
    last_wait_[{errand->client, errand->key}] = world_.now();
    world_.log("client ", errand->client, ": errand ", errand->number, " on ", errand->key,
               result ? " holds" : " failed: " + result.error().message());
    if (!result) return check_outcome(*errand, result.error());
    const Grant* grant = store_.find(*errand->grant);
    const bool given = grant != nullptr && grant->fence && result->fence();
    if (!given || (result->fence() != grant->fence && grant->times == 1))
        return world_.violated("no_such_grant", name(*errand) + " got a lease that the store never gave");
    check_local_order(*errand, *result->fence());
}

/// Of those who wait in one client to hold alone, who came first is granted first.
void HolderCheck::check_local_order(const Errand& errand, Fence fence) {
    if (!core::alone(errand.mode)) return;
    auto& turns = turns_[{errand.client, errand.key}];
    for (const Turn& turn : turns)
        if (turn.number > errand.number && turn.fence < fence && plan_.flushes == 0)
            world_.violated("overtaken", name(errand) + ", by errand " + std::to_string(turn.number));
    turns.push_back({errand.number, fence});
}

void HolderCheck::check_outcome(const Errand& errand, const Error& error) {
    const auto wait = errand.options.wait.value_or(0ms);
    const TimePoint running = errand.process->running_since();
    bool right = false;
    if (error == errc::contended) right = wait == 0ms;
    if (error == errc::timed_out)
        right = wait != forever && errand.process->now() >= errand.started_own + wait;
    if (error == errc::cancelled) right = errand.cancelled || errand.closed;
    if (error == errc::unavailable || error == errc::unknown_outcome)
        right = !plan_.faultless() &&
                (!calm_since_ || world_.now() < std::max(*calm_since_, running) + latest_arrival);
    if (!right) world_.violated("wrong_outcome", name(errand) + ": " + error.message());
}

void HolderCheck::release_answered(const ErrandPtr& errand, const Result<void>& result) {
    if (!std::exchange(errand->due, false)) world_.violated("completed_twice", "release of " + name(*errand));
    world_.log("client ", errand->client, ": errand ", errand->number,
               " released: ", result ? "yes" : result.error().message());
    const Grant& grant = *store_.find(*errand->grant);
    const bool ran_out = errand->released && grant.expires <= world_.now();
    if (result && !grant.released && !grant.excused && grant.times == 1 && !ran_out)
        world_.violated("wrong_outcome", name(*errand) + ": released, but the store did not do it");
    if (result || errand->closed) return;
    if (result.error() == errc::not_owner && errand->released && grant.released)
        world_.violated("wrong_outcome", name(*errand) + ": not owner, but it was released");
    if (result.error() == errc::lost && errand->released)
        world_.violated("wrong_outcome", name(*errand) + ": lost, but it was held when it was released");
}

// --- what clients send -------------------------------------------------------------------------------

void HolderCheck::sends(int client, const store::AcquireRequest& request) {
    world_.log("client ", client, ": -> acquire ", request.subject->key.bytes(), " ",
               short_id(request.attempt.raw()), " for errand ", request.subject->owner->biz_id,
               request.place.line == store::Place::Line::join
                   ? " with ticket " + short_id(request.place.ticket.raw())
                   : "",
               request.place.after_grant == store::Place::AfterGrant::rejoin ? " rejoining" : "");
    store_.acquire_sent(client, request, number_in(*request.subject->owner));
}

void HolderCheck::sends(int client, const store::RenewItem& item) {
    const std::string& key = item.subject->key.bytes();
    if (const auto* ticket = std::get_if<TicketId>(&item.id)) {
        world_.log("client ", client, ": -> look ", key, " ticket ", short_id(ticket->raw()));
        return store_.ticket_kept(client, key, *ticket);
    }
    const auto& id = std::get<GrantId>(item.id);
    world_.log("client ", client, ": -> renew ", key, " ", short_id(id.raw()));
    const Grant* grant = store_.find(id);
    if (grant != nullptr && grant->given_up)
        world_.violated("renewed_after_end", "client " + std::to_string(client) + " renews what it released");
    for (const ErrandPtr& errand : errands_)
        if (errand->grant == id && (errand->over_since || errand->released))
            world_.violated("renewed_after_end", name(*errand) + " is renewed after its end");
}

void HolderCheck::sends(int client, const store::ReleaseRequest& request) {
    world_.log("client ", client, ": -> release ", request.subject->key.bytes(), " ",
               short_id(request.attempt.raw()),
               request.ticket ? " and ticket " + short_id(request.ticket->raw()) : "");
    store_.release_sent(request);
}

// --- what clients believe ----------------------------------------------------------------------------

bool HolderCheck::believes(const Errand& errand, TimePoint now) {
    return errand.lease && !errand.over_since && now < errand.usable_until;
}

void HolderCheck::observe() {
    for (const ErrandPtr& errand : errands_)
        if (errand->lease) observe(*errand);
}

void HolderCheck::observe(Errand& errand) {
    TimePoint raw;
    {
        const Process::Peek peek(*errand.process);
        raw = errand.lease->usable_until();
    }
    const TimePoint now = world_.now();
    const TimePoint until = raw == TimePoint::min() ? raw : errand.process->in_world(raw);
    const bool over = until <= now;
    if (!over && errand.over_since) return world_.violated("revived", name(errand) + " is held again");
    if (over && !errand.over_since) errand.over_since = raw == TimePoint::min() ? now : until;
    errand.usable_until = until;
    if (over) return check_told(errand);
    check_believed(errand);
}

void HolderCheck::check_told(const Errand& errand) {
    const bool told = errand.lease->lost().stop_requested();
    if (errand.released && told && !errand.closed)
        world_.violated("wrong_outcome", name(errand) + ": lost is told of a released lease");
    if (errand.leaving || errand.closed) return;
    const TimePoint since = std::max(*errand.over_since, errand.process->running_since());
    if (!told && errand.process->running() && world_.now() > since + told_within)
        world_.violated("loss_not_told", name(errand) + " is not told that its lease is over");
}

void HolderCheck::check_believed(const Errand& errand) {
    const Grant& grant = *store_.find(*errand.grant);
    if (grant.excused) return;
    if (!grant.live || errand.usable_until > grant.expires)
        world_.violated("beyond_lease", name(errand) + " may believe in its lease beyond the store's");
    std::size_t together = 1;
    for (const ErrandPtr& other : errands_) {
        if (other.get() == &errand || other->key != errand.key || !believes(*other, world_.now())) continue;
        if (store_.find(*other->grant)->excused) continue;
        ++together;
        if (core::alone(errand.mode) || core::alone(other->mode))
            world_.violated("two_holders", name(errand) + " and " + name(*other));
    }
    if (errand.mode == core::Mode::permit && together > Plan::permits)
        world_.violated("two_holders", std::to_string(together) + " have a permit of " + errand.key);
}

// --- what is forgotten or left behind ----------------------------------------------------------------

bool HolderCheck::waits_since(int client, const std::string& key, TimePoint when) const {
    return std::any_of(errands_.begin(), errands_.end(), [&](const ErrandPtr& errand) {
        return errand->client == client && errand->key == key && errand->pending() && errand->started <= when;
    });
}

void HolderCheck::look_for_forgotten() {
    if (!calm_since_ && !plan_.faultless()) return;
    const TimePoint calm = calm_since_ ? *calm_since_ + latest_arrival : TimePoint{};
    for (const ErrandPtr& errand : errands_) {
        if (!errand->pending() || !errand->process->running()) continue;
        const auto free = store_.free_since(errand->key);
        if (!free) continue;
        if (world_.now() >
            std::max({*free, errand->started, errand->process->running_since(), calm}) + found_within)
            world_.violated("forgotten", name(*errand) + " waits for a free lock");
    }
}

/// Nobody released it. That is for those who crash, stop or lose their way to the store; not for a client
/// whose acquisition failed long ago and which has not even tried to take it out.
void HolderCheck::grant_ran_out(const Grant& grant) {
    if (grant.given_up || grant.phantom || grant.excused) return;
    const Process* process = process_of(grant.client);
    const auto ended = ended_.find(grant.errand);
    if (process == nullptr || !process->running() || ended == ended_.end()) return;
    if (ended->second.grant == grant.id) return;
    if (std::max(ended->second.at, process->running_since()) + told_within < grant.expires)
        world_.violated("left_behind", "errand " + std::to_string(grant.errand) + " of client " +
                                           std::to_string(grant.client) + " failed, its grant ran out");
}

void HolderCheck::place_ran_out(const Place& place, const core::Ticket& ticket) {
    const Process* process = process_of(place.client);
    if (place.given_up || place.phantom || process == nullptr || !process->running()) return;
    const TimePoint running = process->running_since();
    const std::string who = "client " + std::to_string(place.client) + " on " + place.key;
    if (waits_since(place.client, place.key, ticket.expires - kept_every)) {
        if (std::max(place.kept, running) < ticket.expires - kept_every)
            world_.violated("place_not_kept", who + " lets its place in line run out");
        return;
    }
    if (waits_since(place.client, place.key, ticket.expires)) return;
    const auto last = last_wait_.find({place.client, place.key});
    const TimePoint since = std::max(last == last_wait_.end() ? TimePoint{} : last->second, running);
    if (since + told_within < ticket.expires)
        world_.violated("left_behind", who + " waits no more, its place in line ran out");
}

}  // namespace dlock::sim
