// SPDX-License-Identifier: Apache-2.0
#include "sim/run.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/client.hpp"
#include "sim/seeded_bytes.hpp"

namespace dlock::sim {

using namespace std::chrono_literals;

namespace {

constexpr nanoseconds ticket_lease = store::Place{}.ticket_lease;
/// Calls to take something out are repeated at least that often.
constexpr nanoseconds repeated_within = 2s;

class Run {
public:
    Run(std::uint64_t seed, World::Trace trace);
    Outcome outcome();

private:
    using Mishap = void (Run::*)();
    void prepare(int times, Mishap mishap);
    Client* anyone();
    void open_client();
    void look_for_forgotten();

    void pause_one();
    void crash_one();
    void close_one();
    void cut_one();
    void stall_one();
    void restart();
    void flush();
    void step_clock();
    void force_one();
    void clean_up() { server_.clean_up(); }

    void calm_down();
    void wait_for_all();
    void check_nothing_left();
    void check_all_over();
    void close_all();

    World world_;
    Plan plan_;
    Weather weather_;
    StoreCheck store_check_;
    HolderCheck check_;
    Server server_;
    std::vector<std::unique_ptr<Client>> clients_;
    TimePoint storm_end_;
};

Run::Run(std::uint64_t seed, World::Trace trace)
    : world_(seed, trace),
      plan_(make_plan(world_.random)),
      weather_(plan_.weather),
      store_check_(world_),
      check_(world_, store_check_, plan_),
      server_(world_, store_check_),
      storm_end_(world_.now() + plan_.storm) {
    world_.watch_with([this] { check_.observe(); });
    for (int i = 0; i < plan_.clients; ++i) open_client();
    prepare(plan_.pauses, &Run::pause_one);
    prepare(plan_.crashes, &Run::crash_one);
    prepare(plan_.closes, &Run::close_one);
    prepare(plan_.cuts, &Run::cut_one);
    prepare(plan_.stalls, &Run::stall_one);
    prepare(plan_.restarts, &Run::restart);
    prepare(plan_.flushes, &Run::flush);
    prepare(plan_.clock_steps, &Run::step_clock);
    prepare(plan_.forced, &Run::force_one);
    prepare(plan_.clean_ups, &Run::clean_up);
    look_for_forgotten();
}

void Run::prepare(int times, Mishap mishap) {
    for (int i = 0; i < times; ++i)
        world_.after(world_.random.between(1ns, plan_.storm), [this, mishap] { (this->*mishap)(); });
}

void Run::open_client() {
    const int number = static_cast<int>(clients_.size()) + 1;
    clients_.push_back(std::make_unique<Client>(world_, server_, check_, plan_, weather_, number));
}

Client* Run::anyone() {
    std::vector<Client*> running;
    for (const auto& client : clients_)
        if (client->process().running()) running.push_back(client.get());
    return running.empty() ? nullptr : running[world_.random.below(running.size())];
}

void Run::look_for_forgotten() {
    check_.look_for_forgotten();
    world_.after(500ms, [this] { look_for_forgotten(); });
}

// --- mishaps -----------------------------------------------------------------------------------------

void Run::pause_one() {
    Client* const client = anyone();
    if (client == nullptr) return;
    const nanoseconds length = world_.random.between(1ms, 3 * plan_.longest_lease);
    world_.log("client ", client->number(), ": stopped for ", length.count() / 1'000'000, " ms");
    client->process().pause(length);
}

void Run::crash_one() {
    Client* const client = anyone();
    if (client == nullptr) return;
    client->crash();
    if (world_.random.chance(0.7)) open_client();
}

void Run::close_one() {
    Client* const client = anyone();
    if (client == nullptr) return;
    client->close();
    open_client();
}

void Run::cut_one() {
    Client* const client = anyone();
    if (client != nullptr) client->link().cut(world_.random.between(0ns, nanoseconds(500ms)));
}

void Run::stall_one() {
    Client* const client = anyone();
    if (client != nullptr) client->link().stall(world_.random.between(1ms, 1000ms));
}

void Run::restart() {
    world_.log("  store: restarts");
    server_.go_down();
    const nanoseconds down_for = world_.random.between(1ms, 800ms);
    world_.after(down_for, [this] { server_.come_up(); });
    for (const auto& client : clients_)
        client->link().cut(down_for + world_.random.between(0ns, nanoseconds(50ms)));
}

void Run::flush() {
    server_.flush();
    restart();
}

void Run::step_clock() {
    const nanoseconds by = world_.random.between(nanoseconds(-1h), nanoseconds(1h));
    world_.log("  store: wall clock steps by ", by.count() / 1'000'000'000, " s");
    server_.step_wall_clock(by);
}

void Run::force_one() {
    server_.force_release("k" + std::to_string(world_.random.below(static_cast<std::uint64_t>(plan_.keys))));
}

// --- the end -----------------------------------------------------------------------------------------

void Run::calm_down() {
    world_.log("--- calm");
    weather_ = plan_.calm;
    check_.calm();
    for (const auto& client : clients_) client->wind_down();
}

/// Stopped processes go on, the dead are expired, and then each waiter has its turn.
void Run::wait_for_all() {
    const auto all_idle = [this] {
        return std::all_of(clients_.begin(), clients_.end(),
                           [](const auto& client) { return client->idle() || client->process().killed(); });
    };
    const auto waiting = static_cast<int>(check_.errands().size());
    const TimePoint end = storm_end_ + latest_arrival + 3 * plan_.longest_lease + ticket_lease +
                          (waiting + 1) * (repeated_within + 50ms);
    while (!world_.violation() && !all_idle() && world_.now() < end) world_.run_until(world_.now() + 100ms);
    if (!world_.violation() && !all_idle())
        world_.violated("forgotten", std::to_string(check_.errands().size()) + " errands do not end");
}

/// Clients that live have taken out what they had put in.
void Run::check_nothing_left() {
    server_.each([this](const std::string& key, core::Record& record) {
        store_check_.look(key, record);
        for (const core::Holder& holder : record.holders) {
            if (holder.expires <= world_.now()) continue;
            const Grant& grant = *store_check_.find(holder.id);
            if (check_.lives(grant.client) && !grant.phantom && !check_.was_detached(grant.id))
                world_.violated("left_behind",
                                "client " + std::to_string(grant.client) + " still has " + key);
        }
        for (const core::Ticket& ticket : record.tickets) {
            const Place& place = *store_check_.find(ticket.id);
            if (ticket.expires > world_.now() && check_.lives(place.client) && !place.phantom)
                world_.violated("left_behind",
                                "client " + std::to_string(place.client) + " still waits for " + key);
        }
    });
}

/// Whoever did not take it out: it has run out by itself.
void Run::check_all_over() {
    server_.each([this](const std::string& key, core::Record& record) {
        store_check_.look(key, record);
        if (core::live_holder(record, world_.now()) != nullptr || !core::turns(record, world_.now()).empty())
            world_.violated("left_behind", "somebody holds or waits for " + key + " for ever");
    });
}

void Run::close_all() {
    for (const auto& client : clients_) client->close();
}

Outcome Run::outcome() {
    world_.run_until(storm_end_);
    if (!world_.violation()) calm_down();
    wait_for_all();
    world_.run_until(std::max(world_.now(), storm_end_ + latest_arrival) + repeated_within);
    if (!world_.violation()) check_nothing_left();
    world_.run_until(world_.now() + plan_.longest_lease + ticket_lease + 1ms);
    if (!world_.violation()) check_all_over();
    if (!world_.violation()) close_all();
    return {world_.violation(), world_.events()};
}

}  // namespace

Outcome run(std::uint64_t seed, core::Planted fault, World::Trace trace) {
    core::planted_fault = fault;
    seed_bytes(seed);
    Run one(seed, trace);
    return one.outcome();
}

}  // namespace dlock::sim
