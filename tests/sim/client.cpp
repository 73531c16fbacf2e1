// SPDX-License-Identifier: Apache-2.0
#include "sim/client.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace dlock::sim {

using namespace std::chrono_literals;

namespace {

/// Within what validity allows for, see core/validity.hpp: a thousandth.
constexpr std::int64_t most_drift_ppm = 900;
constexpr nanoseconds short_hold = 20ms;

}  // namespace

Client::Client(World& world, Server& server, HolderCheck& check, const Plan& plan, const Weather& weather,
               int number)
    : world_(world),
      check_(check),
      plan_(plan),
      number_(number),
      process_(std::make_shared<Process>(world, world.random.between(-most_drift_ppm, most_drift_ppm))),
      link_(std::make_shared<Link>(world, server, check, weather, process_, number)),
      left_(static_cast<std::size_t>(plan.threads), plan.errands) {
    if (plan.immediate) link_->make_immediate();
    const auto factory = [&](const store::StoreEnv&) -> Result<std::unique_ptr<store::Store>> {
        return make_store(link_, plan.capabilities);
    };
    engine_ = engine::Engine::create(factory, plan.options, Identity("client " + std::to_string(number)),
                                     check.observer(number), make_host(process_))
                  .value();
    for (int thread = 0; thread < plan.threads; ++thread) rest(thread);
}

Client::~Client() {
    process_->kill();
    gone();
}

// --- what a thread does ------------------------------------------------------------------------------

void Client::rest(int thread) {
    auto& left = left_[static_cast<std::size_t>(thread)];
    if (winding_down_ || left == 0) return;
    --left;
    if (world_.random.chance(0.1)) return begin(thread);  // perhaps inside a callback of the engine
    process_->later(world_.random.between(0ns, plan_.rest), [this, thread] { begin(thread); });
}

void Client::choose(AcquireOptions& options) {
    Random& random = world_.random;
    options.lease = random.between(plan_.shortest_lease, plan_.longest_lease);
    if (random.chance(plan_.stubborn))
        options.wait = forever;
    else if (random.chance(plan_.impatient))
        options.wait = 0ms;
    else
        options.wait = random.between(1ms, 2500ms);
    if (random.chance(0.1)) options.renewing = Renewing::manual;
}

core::Mode Client::choose_mode() {
    switch (plan_.kind) {
        case core::Kind::mutex:
            break;
        case core::Kind::read_write:
            return world_.random.chance(0.4) ? core::Mode::write : core::Mode::shared;
        case core::Kind::permits:
            return core::Mode::permit;
    }
    return core::Mode::exclusive;
}

void Client::begin(int thread) {
    if (winding_down_) return;
    Random& random = world_.random;
    const ErrandPtr errand = check_.add(number_, process_);
    errand->key = "k" + std::to_string(random.below(static_cast<std::uint64_t>(plan_.keys)));
    errand->mode = choose_mode();
    choose(errand->options);
    errands_.push_back(errand);
    Context context(errand->stop.get_token());
    context.biz_id = std::to_string(errand->number);
    if (random.chance(0.15)) {
        process_->later(random.between(0ns, nanoseconds(1500ms)), [this, errand] {
            if (!errand->pending()) return;
            errand->cancelled = world_.now();
            errand->stop.request_stop();
        });
    }
    const auto deliver = random.chance(0.5) ? Lease::Deliver::direct : Lease::Deliver::delivery_thread;
    world_.log("client ", number_, ": errand ", errand->number, " wants ", errand->key, " ",
               core::to_string(errand->mode), ", lease ", errand->options.lease.count(), " ms, wait ",
               errand->options.wait == forever ? -1 : errand->options.wait->count(), " ms");
    const std::uint32_t permits = errand->mode == core::Mode::permit ? Plan::permits : 0;
    engine_->start_acquire(
        Key(errand->key), {errand->mode, permits}, errand->options, context,
        [this, thread, errand](Result<Lease> got) { acquired(thread, errand, std::move(got)); }, deliver);
}

void Client::acquired(int thread, const ErrandPtr& errand, Result<Lease> result) {
    if (process_->killed()) return;
    check_.completed(errand, result);
    if (!result || errand->completions > 1) return end(thread, errand);
    errand->lease.emplace(std::move(*result));
    hold(thread, errand);
}

void Client::hold(int thread, const ErrandPtr& errand) {
    Random& random = world_.random;
    const nanoseconds lease = errand->options.lease;
    const nanoseconds most = winding_down_ || random.chance(0.6) ? short_hold : lease * 2;
    errand->on_lost.emplace(errand->lease->lost(), [this, thread, errand] {
        if (!errand->closed) lost(thread, errand);
    });
    if (random.chance(0.1)) return give_back(thread, errand);
    process_->later(random.between(0ns, most), [this, thread, errand] { give_back(thread, errand); });
    if (random.chance(0.3))
        process_->later(random.between(0ns, most), [errand] {
            if (errand->lease) static_cast<void>(errand->lease->held());
        });
}

/// It notices some time later that it is to stop.
void Client::lost(int thread, const ErrandPtr& errand) {
    world_.log("client ", number_, ": errand ", errand->number, " is told of its loss");
    process_->later(world_.random.between(0ns, nanoseconds(100ms)),
                    [this, thread, errand] { give_back(thread, errand); });
}

void Client::give_back(int thread, const ErrandPtr& errand) {
    if (errand->leaving || !errand->lease || errand->closed) return;
    errand->leaving = true;
    errand->released = errand->lease->held();
    const std::uint64_t dice = world_.random.below(20);
    if (dice == 0) {
        world_.log("client ", number_, ": errand ", errand->number, " detaches");
        static_cast<void>(errand->lease->detach());
        check_.detached(*errand);
        end(thread, errand);
    } else if (dice < 5) {
        world_.log("client ", number_, ": errand ", errand->number, " drops its lease");
        end(thread, errand);
    } else {
        release(thread, errand);
    }
}

void Client::release(int thread, const ErrandPtr& errand) {
    world_.log("client ", number_, ": errand ", errand->number, " releases");
    errand->due = true;
    const auto deliver = world_.random.chance(0.5) ? Lease::Deliver::direct : Lease::Deliver::delivery_thread;
    errand->lease->start_release(
        [this, thread, errand](Result<void> result) {
            if (process_->killed()) return;
            check_.release_answered(errand, result);
            process_->later(0ns, [this, thread, errand] { end(thread, errand); });
        },
        deliver);
}

void Client::end(int thread, const ErrandPtr& errand) {
    errand->on_lost.reset();
    errand->lease.reset();
    check_.forget(errand);
    std::erase(errands_, errand);
    rest(thread);
}

// --- what happens to it ------------------------------------------------------------------------------

bool Client::idle() const { return errands_.empty(); }

void Client::wind_down() { winding_down_ = true; }

void Client::crash() {
    if (!process_->alive()) return;
    world_.log("client ", number_, ": killed");
    process_->kill();
    gone();
}

void Client::close() {
    if (!process_->running()) return;
    world_.log("client ", number_, ": closes");
    for (const ErrandPtr& errand : errands_) errand->closed = true;
    winding_down_ = true;
    const auto errands = errands_;
    static_cast<void>(engine_->close());
    for (const ErrandPtr& errand : errands) {
        if (errand->pending()) world_.violated("not_completed", "an errand outlives the close of its client");
        if (errand->lease && errand->lease->held())
            world_.violated("revived", "a lease is held after the close of its client");
        if (errand->due) world_.violated("not_completed", "a release outlives the close of its client");
    }
    gone();
}

/// Nothing of a process that is no more is judged. What it still has, the engine must be able to let go.
void Client::gone() {
    check_.client_gone(number_);
    for (const ErrandPtr& errand : std::exchange(errands_, {})) {
        errand->on_lost.reset();
        errand->lease.reset();
    }
    if (engine_) static_cast<void>(engine_->close());
    engine_.reset();
}

}  // namespace dlock::sim
