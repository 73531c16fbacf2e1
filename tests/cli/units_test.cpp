// SPDX-License-Identifier: Apache-2.0
#include "cli/units.hpp"

#include <gtest/gtest.h>

#include "cli/exit_code.hpp"

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

TEST(Units, durations) {
    const std::pair<const char*, std::chrono::milliseconds> good[] = {
        {"1ms", 1ms},  {"30s", 30s}, {"1.5s", 1500ms},    {"2m", 2min},    {"1h", 1h},
        {"0.5d", 12h}, {"0s", 0ms},  {"365d", 365 * 24h}, {"00030s", 30s}, {"0.001s", 1ms},
    };
    for (const auto& [text, value] : good)
        EXPECT_EQ(parse_duration("--lease", text, Least::zero), value) << text;
}

TEST(Units, wrong_durations_name_the_field) {
    for (const char* text : {"",
                             "30",
                             "s",
                             "-5s",
                             "+5s",
                             ".5s",
                             "1e3s",
                             "nan",
                             "inf",
                             "0x10s",
                             "5 s",
                             " 5s",
                             "5s ",
                             "5s5",
                             "1w",
                             "366d",
                             "99999999999999999999d",
                             "0.4ms",
                             "5S",
                             "5,5s",
                             "1.2.3s"}) {
        try {
            (void)parse_duration("--lease", text, Least::zero);
            ADD_FAILURE() << text;
        } catch (const Failure& failure) {
            EXPECT_EQ(failure.exit(), exit_code::usage) << text;
            EXPECT_NE(failure.detail().find("--lease"), std::string::npos) << text;
        }
    }
    EXPECT_THROW(parse_duration("--lease", "0s", Least::more_than_zero), Failure);
}

TEST(Units, the_fix_for_a_missing_unit_is_named) {
    try {
        (void)parse_duration("--wait", "30", Least::zero);
        FAIL();
    } catch (const Failure& failure) {
        EXPECT_NE(failure.detail().find("30s"), std::string::npos);
    }
}

TEST(Units, seconds_as_flock_has_them) {
    EXPECT_EQ(parse_seconds("-w", "2.5"), 2500ms);
    EXPECT_EQ(parse_seconds("-w", "0"), 0ms);
    for (const char* text : {"", "2s", "-1", "1e400", "nan", "40000000000"})
        EXPECT_THROW(parse_seconds("-w", text), Failure) << text;
}

TEST(Units, numbers) {
    EXPECT_EQ(parse_number("-E", "255", 0, 255), 255);
    for (const char* text : {"", "-1", "256", "1.5", "x", "99999999999"})
        EXPECT_THROW(parse_number("-E", text, 0, 255), Failure) << text;
}

TEST(Units, for_people) {
    EXPECT_EQ(human(350ms), "350 ms");
    EXPECT_EQ(human(12900ms), "12 s");
    EXPECT_EQ(human(185s), "3 min 5 s");
    EXPECT_EQ(human(180s), "3 min");
    EXPECT_EQ(human(130min), "2 h 10 min");
    EXPECT_EQ(human(99h), "4 d 3 h");
}

}  // namespace
}  // namespace dlock::cli
