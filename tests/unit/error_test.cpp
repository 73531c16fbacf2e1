// SPDX-License-Identifier: Apache-2.0
#include "dlock/error.hpp"

#include <set>

#include <gtest/gtest.h>

#include "dlock/observer.hpp"
#include "dlock/result.hpp"
#include "dlock/time.hpp"

namespace dlock {
namespace {

TEST(ErrorText, each_code_has_its_own_words) {
    std::set<std::string> words;
    for (int code = 1; code <= static_cast<int>(errc::store_error); ++code)
        words.insert(make_error_code(static_cast<errc>(code)).message());
    EXPECT_EQ(words.size(), static_cast<std::size_t>(errc::store_error));
    EXPECT_EQ(words.count("unknown error"), 0U);
    EXPECT_STREQ(dlock_category().name(), "dlock");
}

TEST(ErrorText, message_is_the_words_and_the_detail) {
    EXPECT_EQ(Error(errc::contended, "held by web-3").message(), "contended: held by web-3");
    EXPECT_EQ(Error(errc::timed_out, "").message(), "timed out");
}

TEST(ErrorFault, follows_from_the_code_unless_given) {
    EXPECT_EQ(Error(errc::lost, "").fault, Fault::none);
    EXPECT_EQ(Error(errc::unavailable, "").fault, Fault::retry);
    EXPECT_EQ(Error(errc::unknown_outcome, "").fault, Fault::indeterminate);
    EXPECT_EQ(Error(errc::invalid_argument, "").fault, Fault::fatal);
    EXPECT_EQ(Error(errc::store_error, "", Fault::retry).fault, Fault::retry);
}

TEST(ErrorThrown, keeps_code_and_fault) {
    const Result<int> result = Error(errc::unavailable, "no route");
    try {
        (void)result.value();
        FAIL() << "nothing thrown";
    } catch (const LockError& error) {
        EXPECT_EQ(error.code(), errc::unavailable);
        EXPECT_EQ(error.fault(), Fault::retry);
        EXPECT_NE(std::string(error.what()).find("no route"), std::string::npos);
    }
}

TEST(EventKind, each_has_its_own_name) {
    std::set<std::string_view> names;
    for (int kind = 0; kind <= static_cast<int>(Event::Kind::forced); ++kind)
        names.insert(to_string(static_cast<Event::Kind>(kind)));
    EXPECT_EQ(names.size(), static_cast<std::size_t>(Event::Kind::forced) + 1);
    EXPECT_EQ(names.count("unknown"), 0U);
}

TEST(BootClock, counts_what_the_kernel_counts) {
    timespec before{};
    clock_gettime(CLOCK_BOOTTIME, &before);
    const TimePoint now = BootClock::now();
    timespec after{};
    clock_gettime(CLOCK_BOOTTIME, &after);
    const auto ns = [](const timespec& t) { return t.tv_sec * 1'000'000'000LL + t.tv_nsec; };
    EXPECT_LE(ns(before), now.time_since_epoch().count());
    EXPECT_GE(ns(after), now.time_since_epoch().count());
}

}  // namespace
}  // namespace dlock
