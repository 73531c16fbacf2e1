// SPDX-License-Identifier: Apache-2.0
#include "core/validity.hpp"

#include <gtest/gtest.h>

namespace dlock::core {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint sent{1000s};

TEST(Validity, margin_is_a_twentieth_within_10_and_500_ms_and_at_least_a_thousandth) {
    struct Row {
        milliseconds lease;
        nanoseconds margin;
    };
    for (const Row& row : {Row{100ms, 10ms}, Row{199ms, 10ms}, Row{200ms, 10ms}, Row{201ms, 10'050us},
                           Row{1s, 50ms}, Row{10s, 500ms}, Row{10'001ms, 500ms}, Row{30s, 500ms},
                           Row{500s, 500ms}, Row{501s, 501ms}, Row{1h, 3600ms}, Row{24h * 365, 31'536s}}) {
        EXPECT_EQ(margin(row.lease, 0ms), row.margin) << row.lease.count();
        EXPECT_EQ(margin(row.lease, 250ms), row.margin + 250ms) << row.lease.count();
        EXPECT_EQ(usable_until(sent, row.lease, 250ms), sent + row.lease - row.margin - 250ms);
    }
}

TEST(Validity, something_is_left_of_every_lease_and_less_than_all) {
    for (milliseconds lease = 100ms; lease < 24h * 365; lease = lease * 3 / 2) {
        EXPECT_GT(usable_until(sent, lease, 0ms), sent + lease * 4 / 5);
        EXPECT_LE(usable_until(sent, lease, 0ms), sent + lease - lease / 1000);
    }
}

/// Three renewals, or one and its repeats, have their time before the end.
TEST(Validity, renewals_leave_time_to_repeat_them) {
    for (const milliseconds lease : {100ms, 333ms, 1'000ms, 30'000ms, 3'600'000ms}) {
        const nanoseconds usable = lease - margin(lease, 0ms);
        EXPECT_EQ(renewal_period(lease), nanoseconds(lease) / 3);
        EXPECT_EQ(renewal_jitter(lease), renewal_period(lease) / 20);
        EXPECT_EQ(late_after(lease), nanoseconds(lease) / 10);
        EXPECT_EQ(repeat_every(lease), nanoseconds(lease) / 20);
        EXPECT_LT(renewal_period(lease) + late_after(lease) + 3 * repeat_every(lease), usable);
    }
}

TEST(Validity, settling_takes_half_a_lease_and_at_most_1_s) {
    EXPECT_EQ(settle_within(100ms), 50ms);
    EXPECT_EQ(settle_within(1999ms), 999'500us);
    EXPECT_EQ(settle_within(2s), 1s);
    EXPECT_EQ(settle_within(1h), 1s);
}

}  // namespace
}  // namespace dlock::core
