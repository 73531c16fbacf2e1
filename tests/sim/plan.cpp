// SPDX-License-Identifier: Apache-2.0
#include "sim/plan.hpp"

namespace dlock::sim {

using namespace std::chrono_literals;

namespace {

Weather fair(Random& random) {
    Weather weather;
    weather.fastest = 30us;
    weather.slowest = random.pick<nanoseconds>({200us, 1ms, 5ms});
    return weather;
}

Weather foul(Random& random) {
    Weather weather = fair(random);
    weather.slow = random.pick({0.0, 0.05, 0.2});
    weather.very_slow = random.pick<nanoseconds>({50ms, 300ms, 1s});
    weather.lose_request = random.pick({0.0, 0.0, 0.05, 0.2});
    weather.lose_reply = random.pick({0.0, 0.05, 0.2});
    weather.repeat = random.pick({0.0, 0.0, 0.05, 0.2});
    weather.refuse = random.pick({0.0, 0.0, 0.03, 0.1});
    weather.lose_push = random.pick({0.0, 0.3, 1.0});
    weather.only_held = random.pick({0.0, 0.0, 0.1});
    return weather;
}

void add_mishaps(Plan& plan, Random& random) {
    const auto some = [&](int most) { return random.chance(0.5) ? 0 : random.between(1, most); };
    plan.pauses = some(5);
    plan.crashes = some(3);
    plan.closes = some(2);
    plan.cuts = some(4);
    plan.stalls = some(4);
    plan.restarts = some(2);
    plan.flushes = random.chance(0.1) ? 1 : 0;
    plan.clock_steps = some(4);
    plan.forced = random.chance(0.3) ? random.between(1, 3) : 0;
    plan.clean_ups = some(5);
}

}  // namespace

bool Plan::faultless() const noexcept {
    return pauses + crashes + closes + cuts + stalls + restarts + flushes + forced == 0 &&
           weather.slow == 0 && weather.lose_request == 0 && weather.lose_reply == 0 && weather.repeat == 0 &&
           weather.refuse == 0;
}

Plan make_plan(Random& random) {
    Plan plan;
    plan.clients = random.between(2, 6);
    plan.threads = random.between(1, plan.clients > 3 ? 2 : 4);
    plan.keys = random.chance(0.6) ? 1 : random.between(2, 3);
    plan.errands = random.between(2, 8);
    plan.kind =
        random.pick({core::Kind::mutex, core::Kind::mutex, core::Kind::read_write, core::Kind::permits});
    plan.rest = random.pick<nanoseconds>({20ms, 400ms});
    plan.storm = random.between(nanoseconds(1500ms), nanoseconds(6s));
    plan.shortest_lease = random.pick({150ms, 500ms, 2000ms});
    plan.longest_lease = plan.shortest_lease * random.between(1, 3);
    plan.options.call_timeout = random.pick({60ms, 200ms, 1000ms});
    plan.options.unavailable_after = random.pick({milliseconds(500), milliseconds(5000), forever});
    plan.capabilities.lines = !random.chance(0.1);
    plan.capabilities.notify = !random.chance(0.15);
    plan.stubborn = random.pick({0.2, 0.6, 0.9});
    plan.impatient = random.pick({0.0, 0.1, 0.4});
    plan.calm = fair(random);
    plan.weather = plan.calm;
    if (random.chance(0.05)) {
        plan.immediate = true;
    } else if (random.chance(0.9)) {
        plan.weather = foul(random);
        add_mishaps(plan, random);
    }
    return plan;
}

}  // namespace dlock::sim
