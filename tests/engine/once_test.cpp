// SPDX-License-Identifier: Apache-2.0
/// Work that is done once, over the memory store.
#include <atomic>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlock/dlock.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class OnceTest : public testing::Test {
protected:
    const Key key{"once/" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name())};
    Client client = Client::open("memory:once-test", {}, Identity{"first"}).value();
    Client other = Client::open("memory:once-test", {}, Identity{"second"}).value();

    std::string refusal(const OnceOptions& options) {
        const auto got = client.once(
            key, [](Lease&) { return "ran"; }, options);
        return got ? "no error" : got.error().message();
    }
    [[nodiscard]] bool is_free() const { return client.show(key).value().holders.empty(); }
};

TEST_F(OnceTest, the_first_call_runs_and_the_others_get_its_result_with_who_and_when) {
    Context context;
    context.biz_id = "order 4711";
    const auto ran = client.once(
        key,
        [](Lease& lease) {
            EXPECT_TRUE(lease.held());
            EXPECT_TRUE(lease.fence());
            return "the result";
        },
        {}, context);
    ASSERT_TRUE(ran) << ran.error().message();
    EXPECT_TRUE(ran->ran);
    EXPECT_EQ(ran->result, "the result");
    EXPECT_EQ(ran->by.service, "first");
    EXPECT_TRUE(is_free());
    const auto known = other.once(key, [](Lease&) -> std::string { throw std::logic_error("twice"); });
    ASSERT_TRUE(known) << known.error().message();
    EXPECT_FALSE(known->ran);
    EXPECT_EQ(known->result, "the result");
    EXPECT_EQ(known->by.service, "first");
    EXPECT_EQ(known->by.biz_id, "order 4711");
    EXPECT_NE(known->at, std::chrono::system_clock::time_point());
    EXPECT_GE(known->age, 0ms);
}

TEST_F(OnceTest, callers_that_come_together_share_one_run) {
    std::atomic<int> runs{0};
    std::atomic<int> callers{0};
    std::promise<void> all_come;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 8; ++i) {
            threads.emplace_back([&, i] {
                if (callers.fetch_add(1) == 7) all_come.set_value();
                const auto got = (i % 2 == 0 ? client : other)
                                     .single_flight(key,
                                                    [&](Lease&) {
                                                        all_come.get_future().wait();
                                                        return std::to_string(++runs);
                                                    },
                                                    {.keep = 10s});
                ASSERT_TRUE(got) << got.error().message();
                EXPECT_EQ(got->result, "1");
            });
        }
    }
    EXPECT_EQ(runs.load(), 1);
}

TEST_F(OnceTest, when_the_result_has_run_out_the_next_call_runs) {
    const auto number = [this](std::string text) {
        return client.once(key, [&](Lease&) { return text; }, {.keep = 50ms}).value().result;
    };
    EXPECT_EQ(number("1"), "1");
    std::string got = "1";
    for (const auto end = BootClock::now() + 10s; got == "1" && BootClock::now() < end;) got = number("2");
    EXPECT_EQ(got, "2");
}

TEST_F(OnceTest, an_exception_goes_on_and_leaves_no_result) {
    EXPECT_THROW(static_cast<void>(client.once(
                     key, [](Lease&) -> std::string { throw std::runtime_error("the work failed"); })),
                 std::runtime_error);
    const auto next = other.once(key, [](Lease&) { return "mine"; });
    ASSERT_TRUE(next);
    EXPECT_TRUE(next->ran);
}

TEST_F(OnceTest, a_result_of_4096_bytes_is_kept_and_one_more_is_refused) {
    const auto much = client.once(key, [](Lease&) { return std::string(4097, 'x'); });
    ASSERT_FALSE(much);
    EXPECT_EQ(much.error(), errc::invalid_argument);
    EXPECT_THAT(much.error().detail, HasSubstr("4097 bytes"));
    EXPECT_TRUE(is_free());
    const std::string most(4096, '\0');
    EXPECT_EQ(client.once(key, [&](Lease&) { return most; })->result, most);
    EXPECT_EQ(other.once(key, [](Lease&) { return "again"; })->result, most);
}

TEST_F(OnceTest, an_empty_result_is_a_result) {
    EXPECT_TRUE(client.once(key, [](Lease&) { return ""; })->ran);
    EXPECT_FALSE(other.once(key, [](Lease&) { return "again"; })->ran);
}

TEST_F(OnceTest, a_lease_that_is_lost_before_the_end_keeps_no_result) {
    const auto lost = client.once(key, [&](Lease& lease) {
        EXPECT_EQ(*other.force_release(key, lease.id().public_id()), Forced::done);
        return "too late";
    });
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error(), errc::lost);
    const auto noticed =
        client.once(key,
                    [&](Lease& lease) {
                        EXPECT_EQ(*other.force_release(key, lease.id().public_id()), Forced::done);
                        std::promise<void> told;
                        const std::stop_callback callback(lease.lost(), [&] { told.set_value(); });
                        EXPECT_EQ(told.get_future().wait_for(10s), std::future_status::ready);
                        return "too late";
                    },
                    {.lock = {.lease = 2s}});
    ASSERT_FALSE(noticed);
    EXPECT_EQ(noticed.error(), errc::lost);
    EXPECT_TRUE(other.once(key, [](Lease&) { return "anew"; })->ran);
}

TEST_F(OnceTest, work_that_releases_its_lease_keeps_no_result) {
    const auto got = client.once(key, [](Lease& lease) {
        EXPECT_TRUE(lease.release());
        return "";
    });
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error(), errc::lost);
}

TEST_F(OnceTest, who_will_not_wait_is_told_and_a_cancelled_wait_ends) {
    const Lease busy = other.mutex(key).acquire();
    EXPECT_THAT(refusal({.lock = {.wait = 0ms}}), HasSubstr("contended"));
    EXPECT_THAT(refusal({.lock = {.wait = 30ms}}), HasSubstr("timed out"));
    std::stop_source stop;
    auto waiting = std::async(std::launch::async, [&] {
        return client.once(
            key, [](Lease&) { return ""; }, {}, Context(stop.get_token()));
    });
    stop.request_stop();
    const auto got = waiting.get();
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error(), errc::cancelled);
}

TEST_F(OnceTest, bad_options_name_the_field) {
    EXPECT_THAT(refusal({.keep = 0ms}), HasSubstr("keep is 0 ms"));
    EXPECT_THAT(refusal({.keep = -1s}), HasSubstr("keep"));
    EXPECT_THAT(refusal({.keep = forever}), HasSubstr("keep"));
    EXPECT_THAT(refusal({.lock = {.lease = 0ms}}), HasSubstr("lease"));
    EXPECT_THAT(refusal({.lock = {.nested = Nested::join}}), HasSubstr("nested"));
    EXPECT_THAT(client.once(key, nullptr).error().detail, HasSubstr("work"));
    Lease lease = client.mutex(key).acquire();
    EXPECT_FALSE(lease.finish("", 0ms));
    EXPECT_FALSE(lease.finish(std::string(4097, 'x'), 1s));
    EXPECT_TRUE(lease.held());
    EXPECT_TRUE(lease.finish("x", 1h));
    EXPECT_EQ(lease.finish("x", 1h).error(), errc::lost);
    EXPECT_FALSE(other.once(key, [](Lease&) { return "y"; })->ran);
}

TEST_F(OnceTest, a_joined_lease_that_goes_last_leaves_the_result) {
    Lease lease = client.mutex(key).acquire();
    Lease part = lease.join().value();
    EXPECT_TRUE(lease.finish("x", 1h));
    EXPECT_FALSE(is_free());
    EXPECT_TRUE(part.release());
    EXPECT_EQ(other.once(key, [](Lease&) { return "y"; })->result, "x");
}

TEST_F(OnceTest, without_a_thread_it_begins_with_the_lock_or_the_result) {
    const auto start = [this](const OnceOptions& options) {
        std::promise<Result<OnceStart>> answer;
        client.start_once(key, options, {}, [&](Result<OnceStart> got) { answer.set_value(std::move(got)); });
        return answer.get_future().get();
    };
    EXPECT_FALSE(start({.keep = 0ms}));
    auto first = start({});
    ASSERT_TRUE(first && std::holds_alternative<Lease>(*first));
    EXPECT_TRUE(std::get<Lease>(*first).finish("done", 1min));
    auto second = start({});
    ASSERT_TRUE(second && std::holds_alternative<Outcome>(*second));
    EXPECT_EQ(std::get<Outcome>(*second).result, "done");
}

}  // namespace
}  // namespace dlock
