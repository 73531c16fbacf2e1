// SPDX-License-Identifier: Apache-2.0
/// The simulation without a fault and with each planted one.
/// A seed that failed runs alone, with all that happened: `sim_tests --seed N [--planted NAME] [--trace]`.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "sim/run.hpp"

namespace dlock::sim {
namespace {

using core::Planted;

constexpr std::uint64_t seeds = 2000;

struct Fault {
    Planted fault;
    std::string_view name;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
constexpr std::array faults{
    Fault{Planted::margin_ignored, "margin_ignored"},
    Fault{Planted::counted_from_reply, "counted_from_reply"},
    Fault{Planted::renewal_revives, "renewal_revives"},
    Fault{Planted::renewed_after_release, "renewed_after_release"},
    Fault{Planted::unknown_taken_for_renewed, "unknown_taken_for_renewed"},
    Fault{Planted::loss_not_told, "loss_not_told"},
    Fault{Planted::unknown_taken_for_contended, "unknown_taken_for_contended"},
    Fault{Planted::reply_taken_for_other, "reply_taken_for_other"},
    Fault{Planted::withdraw_forgotten, "withdraw_forgotten"},
    Fault{Planted::repeat_counts_anew, "repeat_counts_anew"},
    Fault{Planted::waiter_dropped, "waiter_dropped"},
    Fault{Planted::newcomer_overtakes, "newcomer_overtakes"},
    Fault{Planted::dead_ticket_blocks, "dead_ticket_blocks"},
    Fault{Planted::look_forgotten, "look_forgotten"},
    Fault{Planted::ticket_not_renewed, "ticket_not_renewed"},
    Fault{Planted::fence_reused, "fence_reused"},
    Fault{Planted::fence_from_clock_only, "fence_from_clock_only"},
    Fault{Planted::expired_still_renewed, "expired_still_renewed"},
    Fault{Planted::release_ignores_owner, "release_ignores_owner"},
    Fault{Planted::attempt_not_recognised, "attempt_not_recognised"},
    Fault{Planted::expiry_ignored, "expiry_ignored"},
    Fault{Planted::readers_not_counted, "readers_not_counted"},
    Fault{Planted::reader_passes_writer, "reader_passes_writer"},
    Fault{Planted::one_permit_too_many, "one_permit_too_many"},
};

std::string again(std::uint64_t seed, std::string_view planted) {
    std::string command = "sim_tests --seed " + std::to_string(seed);
    if (!planted.empty()) command += " --planted " + std::string(planted);
    return command + " --trace";
}

TEST(Simulation, finds_nothing_in_the_rules_as_they_are) {
    std::uint64_t events = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const Outcome outcome = run(seed, Planted::none);
        events += outcome.events;
        ASSERT_FALSE(outcome.violation) << outcome.violation->check << ": " << outcome.violation->what
                                        << "\nseed " << seed << "; again: " << again(seed, "");
    }
    std::printf("%llu seeds, %llu events\n", static_cast<unsigned long long>(seeds),
                static_cast<unsigned long long>(events));
}

/// One seed gives one run, whatever ran before it: else a failing seed could not be repeated.
TEST(Simulation, repeats_a_run_from_its_seed) {
    const Outcome alone = run(7, Planted::none);
    run(8, Planted::none);
    EXPECT_EQ(run(7, Planted::none).events, alone.events);
}

class PlantedFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, is_found) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        const Outcome outcome = run(seed, GetParam().fault);
        if (!outcome.violation) continue;
        std::printf("%s: seed %llu, %s: %s\n  again: %s\n", GetParam().name.data(),
                    static_cast<unsigned long long>(seed), outcome.violation->check.c_str(),
                    outcome.violation->what.c_str(), again(seed, GetParam().name).c_str());
        return;
    }
    FAIL() << GetParam().name << " is not found within " << seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Simulation, PlantedFault, testing::ValuesIn(faults),
                         [](const auto& tested) { return std::string(tested.param.name); });

struct Request {
    std::optional<std::uint64_t> seed;
    std::uint64_t last = 0;  ///< all from `seed` to this one
    Planted fault = Planted::none;
    World::Trace trace = World::Trace::off;
};

std::optional<Request> read(int argc, char** argv) {
    Request request;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        const bool more = i + 1 < argc;
        if (word == "--trace") {
            request.trace = World::Trace::on;
        } else if (word == "--seed" && more) {
            request.seed = std::strtoull(argv[++i], nullptr, 10);
        } else if (word == "--to" && more) {
            request.last = std::strtoull(argv[++i], nullptr, 10);
        } else if (word == "--planted" && more) {
            const std::string_view name = argv[++i];
            for (const Fault& fault : faults)
                if (fault.name == name) request.fault = fault.fault;
            if (request.fault == Planted::none) return std::nullopt;
        } else {
            return std::nullopt;
        }
    }
    return request;
}

int run_some(const Request& request) {
    std::uint64_t found = 0;
    std::uint64_t events = 0;
    const std::uint64_t last = std::max(request.last, *request.seed);
    for (std::uint64_t seed = *request.seed; seed <= last; ++seed) {
        const Outcome outcome = run(seed, request.fault, request.trace);
        events += outcome.events;
        if (!outcome.violation) continue;
        ++found;
        std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(seed),
                    outcome.violation->check.c_str(), outcome.violation->what.c_str());
    }
    std::printf(
        "%llu of %llu seeds found something, in %llu events\n", static_cast<unsigned long long>(found),
        static_cast<unsigned long long>(last - *request.seed + 1), static_cast<unsigned long long>(events));
    return found == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dlock::sim

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const auto request = dlock::sim::read(argc, argv);
    if (!request) {
        std::fprintf(stderr,
                     "usage: sim_tests [--seed N [--to N] [--planted NAME] [--trace]] [gtest options]\n");
        return 64;
    }
    return request->seed ? dlock::sim::run_some(*request) : RUN_ALL_TESTS();
}
