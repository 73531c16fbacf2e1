// SPDX-License-Identifier: Apache-2.0
#include "dlock/options.hpp"

#include <gtest/gtest.h>

namespace dlock {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

std::string complaint(const Result<void>& checked) {
    if (checked) return "";
    EXPECT_EQ(checked.error(), errc::invalid_argument);
    return checked.error().detail;
}

TEST(Options, defaults_are_valid) {
    EXPECT_EQ(complaint(AcquireOptions{}.validate()), "");
    EXPECT_EQ(complaint(ClientOptions{}.validate()), "");
    EXPECT_EQ(complaint(Context{}.validate()), "");
}

TEST(Options, lease_is_a_time_up_to_a_year) {
    EXPECT_EQ(complaint(AcquireOptions{.lease = 1ms}.validate()), "");
    EXPECT_EQ(complaint(AcquireOptions{.lease = longest}.validate()), "");
    EXPECT_EQ(complaint(AcquireOptions{.lease = 0ms}.validate()),
              "lease is 0 ms; give more than 0 and at most 365 days");
    EXPECT_EQ(complaint(AcquireOptions{.lease = -5ms}.validate()),
              "lease is -5 ms; give more than 0 and at most 365 days");
    for (const milliseconds lease : {longest + 1ms, forever, milliseconds::min()})
        EXPECT_EQ(complaint(AcquireOptions{.lease = lease}.validate()).find("lease is "), 0U);
}

TEST(Options, limits_of_a_hold_are_times_or_none) {
    EXPECT_EQ(complaint(AcquireOptions{.max_hold = 1ms, .progress_within = longest}.validate()), "");
    for (const milliseconds wrong : {0ms, -1ms, longest + 1ms}) {
        EXPECT_EQ(complaint(AcquireOptions{.max_hold = wrong}.validate()).find("max_hold is "), 0U);
        EXPECT_EQ(complaint(AcquireOptions{.progress_within = wrong}.validate()).find("progress_within is "),
                  0U);
    }
}

TEST(Options, wait_is_nothing_limited_or_for_ever) {
    for (const milliseconds wait : {milliseconds(0), milliseconds(longest), forever})
        EXPECT_EQ(complaint(AcquireOptions{.wait = wait}.validate()), "");
    for (const milliseconds wait : {milliseconds(-1), longest + 1ms, milliseconds::min()})
        EXPECT_EQ(complaint(AcquireOptions{.wait = wait}.validate()).find("wait is "), 0U);
}

TEST(Options, client_times_are_bounded) {
    EXPECT_EQ(complaint(ClientOptions{.call_timeout = 49ms}.validate()),
              "call_timeout is 49 ms; give 50 ms to 60 s");
    EXPECT_EQ(complaint(ClientOptions{.call_timeout = 60'001ms}.validate()).find("call_timeout is "), 0U);
    EXPECT_EQ(complaint(ClientOptions{.unavailable_after = -1ms}.validate()).find("unavailable_after is "),
              0U);
    EXPECT_EQ(complaint(ClientOptions{.unavailable_after = forever}.validate()), "");
    EXPECT_EQ(complaint(ClientOptions{.close_within = -1ms}.validate()).find("close_within is "), 0U);
    EXPECT_EQ(complaint(ClientOptions{.close_within = forever}.validate()).find("close_within is "), 0U);
    EXPECT_EQ(complaint(ClientOptions{.close_within = 0ms}.validate()), "");
}

TEST(Options, context_texts_are_utf8_of_limited_size) {
    Context context;
    context.biz_id = std::string(256, 'x');
    context.txid = std::string(256, 'x');
    context.note = std::string(1024, 'x');
    EXPECT_EQ(complaint(context.validate()), "");
    context.note += 'x';
    EXPECT_EQ(complaint(context.validate()), "note has 1025 bytes; use at most 1024");
    context.txid = "\xC0\x80";
    EXPECT_EQ(complaint(context.validate()).find("txid is not UTF-8"), 0U);
    context.biz_id += 'x';
    EXPECT_EQ(complaint(context.validate()).find("biz_id has 257 bytes"), 0U);
}

}  // namespace
}  // namespace dlock
