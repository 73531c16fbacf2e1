// SPDX-License-Identifier: Apache-2.0
#include "store/memory/memory_store.hpp"

#include <thread>

#include <gtest/gtest.h>

#include "fake_loop.hpp"
#include "store/memory/memory_space.hpp"

namespace dlock::store {
namespace {

using namespace std::chrono_literals;

/// Answers of the memory store are there when the call returns.
template <class Answer>
struct Caught {
    std::optional<Answer> answer;
    Completion<Answer> take() {
        return [this](Answer given) { answer.emplace(std::move(given)); };
    }
};

class MemoryStoreTest : public testing::Test {
protected:
    SubjectPtr subject(const std::string& key, const std::string& service = "svc") {
        auto owner = std::make_shared<Owner>();
        owner->service = service;
        return std::make_shared<const Subject>(Key{key}, owner);
    }
    AcquireAnswer acquire(Store& at, const SubjectPtr& what, const GrantId& attempt, Place place = {}) {
        AcquireRequest request;
        request.subject = what;
        request.attempt = attempt;
        request.lease = 10s;
        request.place = place;
        Caught<AcquireAnswer> caught;
        at.acquire(request, call, caught.take());
        return std::move(caught.answer).value();
    }
    /// A new attempt that must be granted.
    GrantId hold(const std::string& key) {
        const auto attempt = core::random_id<GrantId>();
        EXPECT_TRUE(std::holds_alternative<Granted>(acquire(*store, subject(key), attempt))) << key;
        return attempt;
    }
    Released release(const std::string& key, const GrantId& attempt, std::optional<TicketId> ticket = {}) {
        ReleaseRequest request;
        request.subject = subject(key);
        request.attempt = attempt;
        request.ticket = ticket;
        Caught<Result<Released>> caught;
        store->release(request, call, caught.take());
        return caught.answer.value().value();
    }
    Result<Page> inspect(const InspectRequest& request) {
        Caught<Result<Page>> caught;
        store->inspect(request, call, caught.take());
        return std::move(caught.answer).value();
    }
    Page list(Filter filter = {}) { return inspect({.filter = std::move(filter), .only = {}}).value(); }
    LockInfo show(const std::string& key) {
        const Page page = inspect({.filter = {}, .only = Key{key}}).value();
        return page.locks.empty() ? LockInfo{} : page.locks.front();
    }
    static std::vector<std::string> keys(const Page& page) {
        std::vector<std::string> found;
        for (const LockInfo& info : page.locks) found.push_back(info.key.bytes());
        return found;
    }
    static Place join(const TicketId& ticket) {
        Place place;
        place.line = Place::Line::join;
        place.ticket = ticket;
        return place;
    }

    FakeLoop loop;
    StoreEnv env{loop, "instance", 1s};
    Call call{TimePoint::max()};
    std::uint64_t wall_us = 5'000'000;
    std::shared_ptr<MemorySpace> space = std::make_shared<MemorySpace>();
    std::unique_ptr<Store> store =
        make_memory_store(space, env, {.now = {}, .wall_us = [this] { return wall_us; }});
};

TEST_F(MemoryStoreTest, grant_is_answered_with_its_fence) {
    const AcquireAnswer answer = acquire(*store, subject("k"), core::random_id<GrantId>());
    EXPECT_EQ(std::get<Granted>(answer).fence, Fence{wall_us});
    EXPECT_EQ(std::get<Granted>(answer).handle, "");
}

TEST_F(MemoryStoreTest, contended_tells_who_holds_and_for_how_long) {
    acquire(*store, subject("k", "billing"), core::random_id<GrantId>());
    loop.time += 3s;
    const auto contended = std::get<Contended>(acquire(*store, subject("k"), core::random_id<GrantId>()));
    EXPECT_EQ(contended.retry_in, 7000ms);
    EXPECT_EQ(contended.holder->owner.service, "billing");
    EXPECT_EQ(contended.holder->held_for, 3000ms);
    EXPECT_EQ(contended.holder->expires_in, 7000ms);
}

TEST_F(MemoryStoreTest, lease_runs_by_the_loops_time_and_nothing_else) {
    const GrantId first = hold("k");
    wall_us += 3'600'000'000;
    EXPECT_TRUE(std::holds_alternative<Contended>(acquire(*store, subject("k"), core::random_id<GrantId>())));
    loop.time += 10s;
    hold("k");
    EXPECT_EQ(release("k", first), Released::not_owner);
}

TEST_F(MemoryStoreTest, fence_rises_though_the_wall_clock_goes_back) {
    const GrantId first = hold("k");
    release("k", first);
    wall_us = 1;
    const auto granted = std::get<Granted>(acquire(*store, subject("k"), core::random_id<GrantId>()));
    EXPECT_EQ(granted.fence, Fence{5'000'001});
}

TEST_F(MemoryStoreTest, given_time_replaces_the_loops) {
    TimePoint stopped{5s};
    const auto other = make_memory_store(space, env, {.now = [&] { return stopped; }, .wall_us = {}});
    EXPECT_TRUE(std::holds_alternative<Granted>(acquire(*other, subject("t"), core::random_id<GrantId>())));
    loop.time += 1h;
    EXPECT_TRUE(std::holds_alternative<Contended>(acquire(*other, subject("t"), core::random_id<GrantId>())));
    stopped += 10s;
    const auto granted = std::get<Granted>(acquire(*other, subject("t"), core::random_id<GrantId>()));
    EXPECT_GT(granted.fence->value, 1'700'000'000'000'000U) << "CLOCK_REALTIME in microseconds";
}

TEST_F(MemoryStoreTest, renewals_are_answered_in_their_order) {
    const GrantId held = hold("a");
    hold("b");
    const auto ticket = core::random_id<TicketId>();
    acquire(*store, subject("b"), core::random_id<GrantId>(), join(ticket));
    loop.time += 4s;
    std::vector<RenewItem> items;
    items.push_back({.subject = subject("b"), .id = ticket, .lease = 5s, .handle = {}});
    items.push_back(
        {.subject = subject("never used"), .id = core::random_id<GrantId>(), .lease = 10s, .handle = {}});
    items.push_back({.subject = subject("a"), .id = held, .lease = 10s, .handle = {}});
    items.push_back({.subject = subject("a"), .id = core::random_id<GrantId>(), .lease = 10s, .handle = {}});
    items.push_back({.subject = subject("a"), .id = core::random_id<TicketId>(), .lease = 10s, .handle = {}});
    Caught<std::vector<RenewAnswer>> caught;
    store->renew(items, call, caught.take());
    const auto& answers = caught.answer.value();
    ASSERT_EQ(answers.size(), 5U);
    EXPECT_EQ(answers[0].renewal, Renewal::renewed);
    EXPECT_EQ(answers[0].holder_left, 6000ms);
    EXPECT_FALSE(answers[0].turn);
    EXPECT_EQ(answers[1].renewal, Renewal::lost);
    EXPECT_EQ(answers[2].renewal, Renewal::renewed);
    EXPECT_EQ(answers[3].renewal, Renewal::lost);
    EXPECT_EQ(answers[4].renewal, Renewal::lost);
    EXPECT_EQ(show("a").holders.front().expires_in, 10'000ms);
}

TEST_F(MemoryStoreTest, release_wakes_the_head_alone_and_on_its_own_loop) {
    const GrantId first = hold("k");
    FakeLoop other_loop;
    const StoreEnv other_env{other_loop, "other", 1s};
    const auto other = make_memory_store(space, other_env);
    other_loop.time = loop.time;
    const auto head = core::random_id<TicketId>();
    const auto second = core::random_id<TicketId>();
    acquire(*other, subject("k"), core::random_id<GrantId>(), join(head));
    acquire(*store, subject("k"), core::random_id<GrantId>(), join(second));
    int head_woken = 0;
    int second_woken = 0;
    const auto watch_head = other->watch(subject("k"), head, [&](Change change) {
        EXPECT_EQ(change, Change::perhaps_mine);
        ++head_woken;
    });
    auto watch_second = store->watch(subject("k"), second, [&](Change) { ++second_woken; });
    EXPECT_EQ(release("k", first), Released::released);
    EXPECT_EQ(head_woken, 0) << "called back inside the release";
    EXPECT_EQ(other_loop.run(), 1U);
    EXPECT_EQ(loop.run(), 0U);
    EXPECT_EQ(head_woken, 1);

    release("k", core::random_id<GrantId>(), head);  // the head withdraws
    EXPECT_EQ(loop.run(), 1U);
    EXPECT_EQ(second_woken, 1);

    watch_second.reset();
    const auto third = core::random_id<TicketId>();
    acquire(*store, subject("k"), core::random_id<GrantId>(), join(third));
    release("k", core::random_id<GrantId>(), third);
    EXPECT_EQ(loop.run(), 0U);
}

TEST_F(MemoryStoreTest, watch_that_comes_after_the_release_is_told_at_once) {
    const GrantId first = hold("k");
    const auto ticket = core::random_id<TicketId>();
    acquire(*store, subject("k"), core::random_id<GrantId>(), join(ticket));
    release("k", first);
    int woken = 0;
    const auto watch = store->watch(subject("k"), ticket, [&](Change) { ++woken; });
    loop.run();
    EXPECT_EQ(woken, 1);
}

TEST_F(MemoryStoreTest, no_callback_begins_after_the_watch_is_gone) {
    const GrantId first = hold("k");
    const auto ticket = core::random_id<TicketId>();
    acquire(*store, subject("k"), core::random_id<GrantId>(), join(ticket));
    int woken = 0;
    auto watch = store->watch(subject("k"), ticket, [&](Change) { ++woken; });
    release("k", first);
    watch.reset();
    EXPECT_EQ(loop.run(), 1U);
    EXPECT_EQ(woken, 0);
}

TEST_F(MemoryStoreTest, forced_release_wakes_the_head_and_needs_what_was_seen) {
    hold("k");
    const auto ticket = core::random_id<TicketId>();
    acquire(*store, subject("k"), core::random_id<GrantId>(), join(ticket));
    const auto watch = store->watch(subject("k"), ticket, [](Change) {});
    const auto force = [&](const std::string& key, const std::string& seen) {
        Caught<Result<Forced>> caught;
        store->force_release(Key{key}, seen, call, caught.take());
        return caught.answer.value().value();
    };
    EXPECT_EQ(force("never used", "000000000000"), Forced::already_free);
    EXPECT_EQ(force("k", "000000000000"), Forced::moved_on);
    EXPECT_EQ(force("k", show("k").holders.front().public_id), Forced::done);
    EXPECT_EQ(loop.run(), 1U);
}

TEST_F(MemoryStoreTest, show_gives_holder_line_and_fence) {
    EXPECT_EQ(inspect({.filter = {}, .only = Key{"k"}}).value().locks.size(), 0U);
    const auto attempt = core::random_id<GrantId>();
    acquire(*store, subject("k", "billing"), attempt);
    loop.time += 1s;
    for (int i = 0; i < 130; ++i)
        acquire(*store, subject("k", "w" + std::to_string(i)), core::random_id<GrantId>(),
                join(core::random_id<TicketId>()));
    loop.time += 1s;
    const LockInfo info = show("k");
    EXPECT_EQ(info.key, Key{"k"});
    EXPECT_EQ(info.kind, "mutex");
    EXPECT_EQ(info.problem, "");
    EXPECT_EQ(info.last_fence, Fence{5'000'000});
    ASSERT_EQ(info.holders.size(), 1U);
    EXPECT_EQ(info.holders[0].public_id, core::public_id(attempt));
    EXPECT_EQ(info.holders[0].owner.service, "billing");
    EXPECT_EQ(info.holders[0].held_for, 2000ms);
    EXPECT_EQ(info.holders[0].since.time_since_epoch(), 5s);
    EXPECT_EQ(info.waiter_count, 130U);
    ASSERT_EQ(info.waiters.size(), 100U);
    EXPECT_EQ(info.waiters[0].owner.service, "w0");
    EXPECT_EQ(info.waiters[0].waited_for, 1000ms);
    EXPECT_EQ(info.waiters[0].expires_in, 4000ms);
    loop.time += 4s;
    EXPECT_EQ(show("k").waiter_count, 0U) << "dead waiters are none";
    EXPECT_TRUE(list().locks.front().waiters.empty());
}

TEST_F(MemoryStoreTest, pages_go_by_key_order_each_key_once) {
    std::vector<std::string> all;
    for (int i = 100; i < 350; ++i) all.push_back("job/" + std::to_string(i));
    for (auto key = all.rbegin(); key != all.rend(); ++key) hold(*key);
    hold("zoo");
    hold("\xff\n%");
    std::vector<std::string> found;
    Filter filter{.prefix = "job/", .limit = 60};
    std::size_t pages = 0;
    do {
        const Page page = list(filter);
        EXPECT_LE(page.locks.size(), 60U);
        for (const std::string& key : keys(page)) found.push_back(key);
        filter.cursor = page.next;
        ++pages;
    } while (!filter.cursor.empty());
    EXPECT_EQ(found, all);
    EXPECT_EQ(pages, 5U);

    Filter awkward{.prefix = "\xff", .limit = 1};
    EXPECT_EQ(keys(list(awkward)), (std::vector<std::string>{"\xff\n%"}));
    hold("\xff\xff");
    awkward.cursor = list(awkward).next;
    EXPECT_EQ(keys(list(awkward)), (std::vector<std::string>{"\xff\xff"}));
}

TEST_F(MemoryStoreTest, list_leaves_out_free_keys_unless_asked) {
    release("free", hold("free"));
    hold("held");
    EXPECT_EQ(keys(list()), (std::vector<std::string>{"held"}));
    EXPECT_EQ(keys(list({.held_only = false})), (std::vector<std::string>{"free", "held"}));
    loop.time += 10s;
    EXPECT_TRUE(list().locks.empty());
}

TEST_F(MemoryStoreTest, cursor_that_no_list_gave_is_refused) {
    EXPECT_EQ(inspect({.filter = {.cursor = "%zz"}, .only = {}}).error(), errc::invalid_argument);
}

TEST_F(MemoryStoreTest, unused_keys_are_forgotten_but_their_fences_never_repeat) {
    for (int i = 0; i < 500; ++i) release("old" + std::to_string(i), hold("old" + std::to_string(i)));
    wall_us = 9'000'000;
    release("old7", hold("old7"));
    hold("held");
    wall_us = 1'000;  // an hour later the wall clock is far behind
    loop.time += 59min;
    const auto use = [&] {
        for (int i = 0; i < 20'000; ++i) release("busy", hold("busy"));
    };
    use();
    EXPECT_EQ(list({.prefix = "old", .held_only = false}).locks.size(), 500U);
    loop.time += 1min;
    use();
    EXPECT_EQ(list({.prefix = "old", .held_only = false}).locks.size(), 0U);
    const auto granted = std::get<Granted>(acquire(*store, subject("old7"), core::random_id<GrantId>()));
    EXPECT_EQ(granted.fence, Fence{9'000'001});
}

TEST_F(MemoryStoreTest, held_and_awaited_keys_are_never_forgotten) {
    AcquireRequest request;
    request.subject = subject("long");
    request.attempt = core::random_id<GrantId>();
    request.lease = 24h;
    Caught<AcquireAnswer> caught;
    store->acquire(request, call, caught.take());
    loop.time += 2h;
    for (int i = 0; i < 20'000; ++i) release("busy", hold("busy"));
    EXPECT_EQ(release("long", request.attempt), Released::released);
}

TEST_F(MemoryStoreTest, one_name_is_one_space_for_as_long_as_a_client_lives) {
    const auto open = [&](const char* url) { return open_memory(Url::parse(url).value(), env).value(); };
    auto first = open("memory:shared");
    const auto second = open("memory:shared");
    const auto other = open("memory:other");
    const auto attempt = core::random_id<GrantId>();
    EXPECT_TRUE(std::holds_alternative<Granted>(acquire(*first, subject("k"), attempt)));
    first.reset();
    EXPECT_TRUE(
        std::holds_alternative<Contended>(acquire(*second, subject("k"), core::random_id<GrantId>())));
    EXPECT_TRUE(std::holds_alternative<Granted>(acquire(*other, subject("k"), core::random_id<GrantId>())));
}

TEST_F(MemoryStoreTest, space_ends_with_its_last_client) {
    const auto open = [&] { return open_memory(Url::parse("memory:short").value(), env).value(); };
    EXPECT_TRUE(std::holds_alternative<Granted>(acquire(*open(), subject("k"), core::random_id<GrantId>())));
    EXPECT_TRUE(std::holds_alternative<Granted>(acquire(*open(), subject("k"), core::random_id<GrantId>())));
}

TEST_F(MemoryStoreTest, url_is_a_name_and_nothing_more) {
    for (const auto* url : {"memory:", "memory://host", "memory:x?size=1"})
        EXPECT_EQ(open_memory(Url::parse(url).value(), env).error(), errc::invalid_argument) << url;
}

TEST_F(MemoryStoreTest, threads_exclude_each_other_and_fences_rise) {
    constexpr int rounds = 3000;
    int inside = 0;  // guarded by the lock alone: a race is found by the sanitizer, an overlap by the check
    int worked = 0;
    std::uint64_t last = 0;
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&] {
                for (int done = 0; done < rounds;) {
                    const auto attempt = core::random_id<GrantId>();
                    const AcquireAnswer answer = acquire(*store, subject("k"), attempt);
                    const auto* granted = std::get_if<Granted>(&answer);
                    if (granted == nullptr) continue;
                    EXPECT_EQ(++inside, 1);
                    EXPECT_GT(granted->fence->value, last);
                    last = granted->fence->value;
                    --inside;
                    ++worked;
                    ++done;
                    release("k", attempt);
                }
            });
    }
    EXPECT_EQ(worked, 4 * rounds);
}

}  // namespace
}  // namespace dlock::store
