// SPDX-License-Identifier: Apache-2.0
/// The scripts of layout dlock against the rules of core: the memory store lives on those, so the same calls,
/// drawn at random, must be answered alike by both.
#include <algorithm>
#include <iostream>
#include <map>
#include <random>

#include "store/memory/memory_space.hpp"
#include "store/memory/memory_store.hpp"
#include "unit/redis_fixture.hpp"

namespace dlock::store::redis {
namespace {

using core::Mode;

/// What an answer says, without times and fences.
std::string told(const AcquireAnswer& answer) {
    if (const auto* error = std::get_if<Error>(&answer)) return error->message();
    if (const auto* queued = std::get_if<Queued>(&answer)) return "queued " + std::to_string(queued->place);
    if (const auto* done = std::get_if<Done>(&answer)) return "done " + done->result;
    return std::holds_alternative<Granted>(answer) ? "granted" : "contended";
}

std::string told(const LockInfo& info) {
    std::string text = info.kind + " of " + std::to_string(info.permits.value_or(0)) + ":";
    std::vector<std::string> holders;
    for (const HolderInfo& holder : info.holders)
        holders.push_back(holder.public_id + " " + holder.mode + (holder.held_off ? " off" : ""));
    std::sort(holders.begin(), holders.end());
    for (const std::string& holder : holders) text += " [" + holder + "]";
    for (const WaiterInfo& waiter : info.waiters) text += " <- " + waiter.mode;
    return text;
}

/// One key in both stores, with the fences that each has given.
class RedisRules : public ::testing::TestWithParam<unsigned> {
protected:
    static void SetUpTestSuite() { server_ = std::make_unique<RedisServer>(); }
    static void TearDownTestSuite() { server_.reset(); }
    RedisRules()
        : redis_(server_->url()),
          memory_(make_memory_store(std::make_shared<MemorySpace>(),
                                    {.loop = redis_.loop(), .instance = "i1", .call_timeout = 1s})),
          random_(GetParam()) {
        server_->command({"FLUSHALL"});
    }

    struct Side {
        Store& store;
        std::map<unsigned, std::uint64_t> fences;
    };
    unsigned up_to(unsigned most) { return std::uniform_int_distribution<unsigned>(0, most)(random_); }
    unsigned any() { return 1 + up_to(4); }
    Mode any_mode() {
        if (up_to(19) == 0) return static_cast<Mode>(up_to(3));
        if (kind_ == core::Kind::permits) return Mode::permit;
        if (kind_ == core::Kind::mutex) return Mode::exclusive;
        return up_to(2) == 0 ? Mode::write : Mode::shared;
    }
    template <class Answer, class Request, class Method>
    Answer ask(Store& store, Method method, const Request& request) {
        return answer_of<Answer>([&](auto done) { (store.*method)(request, redis_.call(), done); });
    }

    std::string acquire(Side& side, unsigned number, AcquireRequest request, bool converts) {
        if (converts) request.converts = Fence{side.fences[number]};
        const auto answer = ask<AcquireAnswer>(side.store, &Store::acquire, request);
        if (const auto* granted = std::get_if<Granted>(&answer)) side.fences[number] = granted->fence->value;
        return told(answer);
    }
    std::string acquire_both(bool converts) {
        const unsigned number = any();
        Ask ask{.lease = 1h, .ticket_lease = 1h, .mode = any_mode()};
        if (ask.mode == Mode::permit) ask.permits = up_to(9) == 0 ? 3 : up_to(1) * 2;
        if (!converts && up_to(1) == 0) ask.ticket = ticket(number);
        if (ask.ticket != TicketId{}) ask.rejoins = up_to(4) == 0;
        if (up_to(9) == 0) ask.results = AcquireRequest::Results::want;
        if (converts && kind_ != core::Kind::read_write) return "";
        if (converts) ask.mode = up_to(1) == 0 ? Mode::shared : Mode::write;
        // A ticket waits as one thing only, as those of the engine do.
        if (ask.ticket != TicketId{}) ask.mode = modes_.try_emplace(number, ask.mode).first->second;
        const AcquireRequest request = redis_.request("k", grant(number), ask);
        const std::string what = "acquire " + std::to_string(number) + " " +
                                 std::string(core::to_string(ask.mode)) + (converts ? " converts" : "");
        const std::string wanted = acquire(of_memory_, number, request, converts);
        EXPECT_EQ(acquire(of_redis_, number, request, converts), wanted) << what;
        return what + ": " + wanted;
    }
    std::string release_both() {
        const unsigned number = any();
        ReleaseRequest request;
        request.subject = redis_.subject("k");
        request.attempt = grant(number);
        request.mode = kind_ == core::Kind::mutex ? Mode::exclusive : Mode::shared;
        if (up_to(1) == 0) request.ticket = ticket(number);
        if (request.ticket) modes_.erase(number);
        if (up_to(9) == 0) request.after.hold_off = 1h;
        if (up_to(9) == 0) request.after = {.hold_off = {}, .result = std::to_string(number), .keep = 1h};
        const auto wanted = ask<Result<Released>>(*memory_, &Store::release, request).value();
        EXPECT_EQ(ask<Result<Released>>(redis_.store(), &Store::release, request).value(), wanted);
        return "release " + std::to_string(number) + (request.ticket ? " and leave" : "");
    }
    std::string configure_both() {
        ConfigureRequest request{.key = Key("k"), .permits = up_to(3), .if_current = {}};
        if (up_to(1) == 0) request.if_current = up_to(3);
        const auto wanted = ask<Result<Configured>>(*memory_, &Store::configure, request);
        const auto got = ask<Result<Configured>>(redis_.store(), &Store::configure, request);
        EXPECT_EQ(failure_of(got).message(), failure_of(wanted).message());
        if (wanted && got) {
            EXPECT_EQ(got->changed, wanted->changed);
            EXPECT_EQ(got->permits, wanted->permits);
        }
        return "configure " + std::to_string(request.permits);
    }
    std::string renew_both() {
        const unsigned number = any();
        const std::string handle = kind_ == core::Kind::mutex ? "" : "h";
        const std::vector<RenewItem> items{
            {.subject = redis_.subject("k"), .id = ticket(number), .lease = 1h, .handle = {}},
            {.subject = redis_.subject("k"), .id = grant(number), .lease = 1h, .handle = handle}};
        const auto wanted = ask<std::vector<RenewAnswer>>(*memory_, &Store::renew, items);
        const auto got = redis_.renew(items);
        for (std::size_t i = 0; i < 2; ++i) {
            EXPECT_EQ(got.at(i).renewal, wanted.at(i).renewal) << "renew " << number << " " << i;
            EXPECT_EQ(got.at(i).turn, wanted.at(i).turn) << "renew " << number;
            EXPECT_EQ(got.at(i).holder_left.has_value(), wanted.at(i).holder_left.has_value()) << number;
        }
        return "renew " + std::to_string(number);
    }
    std::string force_both() {
        const unsigned number = any();
        const auto id = up_to(1) == 0 ? core::held_off(grant(number)) : grant(number);
        const auto wanted = answer_of<Result<Forced>>(
            [&](auto done) { memory_->force_release(Key("k"), core::public_id(id), redis_.call(), done); });
        EXPECT_EQ(redis_.force("k", core::public_id(id)).value(), wanted.value());
        return "force " + std::to_string(number);
    }
    std::string any_call() {
        const unsigned dice = up_to(19);
        if (dice < 8) return acquire_both(false);
        if (dice < 10) return acquire_both(true);
        if (dice < 14) return release_both();
        if (dice < 18) return renew_both();
        if (dice == 18) return force_both();
        return kind_ == core::Kind::permits ? configure_both() : force_both();
    }
    void compare(const std::string& log) {
        const auto wanted = answer_of<Result<Page>>(
            [&](auto done) { memory_->inspect({.filter = {}, .only = Key("k")}, redis_.call(), done); });
        const auto got = redis_.show("k");
        // A record that says nothing yet is there in one and not in the other.
        if (got->locks.empty()) return;
        ASSERT_EQ(wanted->locks.size(), 1U) << log;
        EXPECT_EQ(told(got->locks[0]), told(wanted->locks[0])) << log;
    }

    static std::unique_ptr<RedisServer> server_;
    StoreClient redis_;
    std::unique_ptr<Store> memory_;
    Side of_redis_{redis_.store(), {}};
    Side of_memory_{*memory_, {}};
    core::Kind kind_ = static_cast<core::Kind>(GetParam() % 3);
    std::map<unsigned, Mode> modes_;
    std::mt19937 random_;
};
std::unique_ptr<RedisServer> RedisRules::server_;

TEST_P(RedisRules, TheScriptsAnswerLikeTheRules) {
    std::string log;
    for (unsigned i = 0; i < 300 && !HasFailure(); ++i) {
        log += any_call() + "\n";
        compare(log);
    }
    if (HasFailure()) std::cerr << log;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RedisRules, ::testing::Range(0U, 60U));

}  // namespace
}  // namespace dlock::store::redis
