// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/fixture.hpp"

#if defined(__SANITIZE_ADDRESS__)
// GCC does not ship the header that declares it.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace dlock::conformance {

namespace {

std::size_t entries(const char* folder) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        static_cast<void>(entry);
        ++count;
    }
    return count;
}

std::size_t bytes_in_use() {
#if defined(__SANITIZE_ADDRESS__)
    return __sanitizer_get_current_allocated_bytes();
#else
    return mallinfo2().uordblks;
#endif
}

struct Resources {
    std::size_t threads = entries("/proc/self/task");
    std::size_t descriptors = entries("/proc/self/fd");
    std::size_t bytes = bytes_in_use();
};

}  // namespace

TEST_P(Conformance, threads_descriptors_and_memory_are_back_after_a_client) {
    const auto live = [this] {
        const Client holder = open();
        const Client other = open();
        for (int i = 0; i < 12; ++i) {
            const Key key("conformance/" + std::to_string(i));
            Lease lease = take(holder, key, options(10s));
            Pending waiter(other, key, options(10s, patience));
            if (i % 2 == 0) waiter.cancel();
            EXPECT_TRUE(lease.release());
            static_cast<void>(waiter.get());
        }
        static_cast<void>(other.list());
    };
    live();  // what is made once a process, and what the store keeps of a key
    const Resources before;
    for (int i = 0; i < 4; ++i) live();
    const Resources after;
    EXPECT_EQ(after.threads, before.threads);
    EXPECT_EQ(after.descriptors, before.descriptors);
    EXPECT_LT(after.bytes, before.bytes + 64 * 1024);
}

TEST_P(Conformance, a_client_keeps_no_memory_of_keys_it_no_longer_holds) {
    const Client client = open();
    const auto rounds = [&](int count) {
        for (int i = 0; i < count; ++i) {
            const Key key("conformance/" + std::to_string(i % 50));
            static_cast<void>(take(client, key, options(10s, patience)).release());
        }
    };
    rounds(500);
    const Resources before;
    rounds(3000);
    const Resources after;
    // Less than 100 bytes a round; a store may open one more connection in the time.
    EXPECT_LT(after.bytes, before.bytes + 256 * 1024);
}

TEST_P(Conformance, a_dropped_lease_is_released_without_waiting) {
    const Client client = open();
    const Client other = open();
    std::optional<Fence> first;
    {
        const Lease lease = take(client, key_, options(30s));
        first = lease.fence();
    }
    // Far below the lease: it was released, it did not run out.
    expect_higher(first, expect_free(other, key_, patience / 2));
}

TEST_P(Conformance, close_releases_what_is_held_and_ends_what_waits) {
    auto client = std::make_optional(open());
    const auto events = std::make_shared<Recorder>();
    Client waiting = open({}, events);
    const Client other = open();
    Lease lease = take(*client, key_, options(30s));
    Pending waiter = wait_behind(waiting, *events, key_, options(30s, patience));

    EXPECT_TRUE(waiting.close());
    const auto ended = waiter.get();
    ASSERT_FALSE(ended);
    EXPECT_EQ(word(ended.error()), "cancelled");
    EXPECT_TRUE(lease.held());

    EXPECT_TRUE(client->close());
    EXPECT_FALSE(lease.held());
    EXPECT_FALSE(client->mutex(key_).try_acquire(options(1s)));
    client.reset();
    expect_free(other, key_, 0ms);
}

TEST_P(Conformance, close_is_bounded_with_the_store_frozen) {
    DLOCK_NEEDS(Need::freeze);
    ClientOptions bounded;
    bounded.close_within = 700ms;
    Client client = open(bounded);
    const Lease lease = take(client, key_, options(3s));
    store().freeze();
    const TimePoint start = BootClock::now();
    const auto closed = client.close();
    EXPECT_LT(since(start), bounded.close_within + 2s);
    ASSERT_FALSE(closed);
    EXPECT_EQ(word(closed.error()), "unknown_outcome");
    EXPECT_FALSE(lease.held());
    store().thaw();
    expect_free(open(), key_, patience);
}

TEST_P(Conformance, a_forked_child_is_inert_and_the_parents_lock_stays) {
    auto client = std::make_optional(open());
    const Client other = open();
    auto lease = std::make_optional(take(*client, key_, options(5s)));
    const std::string id = lease->id().public_id();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        int failures = 0;
        if (lease->held()) failures |= 1;
        if (lease->renew() || lease->release()) failures |= 2;
        if (client->mutex(Key("conformance/child")).try_acquire(options(1s, 1s))) failures |= 4;
        if (client->list()) failures |= 8;
        lease.reset();
        client.reset();
        _exit(failures);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_TRUE(lease->held());
    EXPECT_EQ(other.show(key_).value().holders.at(0).public_id, id);
    EXPECT_TRUE(lease->renew());
    expect_contended(other, key_);
    EXPECT_TRUE(lease->release());
}

TEST_P(Conformance, a_detached_lease_is_renewed_and_released_by_its_id_elsewhere) {
    const auto other = worker();
    const Client third = open();
    std::string id;
    {
        Client client = open();
        Lease lease = take(client, key_, options(5s));
        id = lease.detach().text();
        EXPECT_FALSE(lease.held());
    }
    expect_contended(third, key_);
    EXPECT_EQ(other->ask("renew_id 60000 " + id, "renewed_id"), "ok") << other->unread();
    EXPECT_GT(third.show(key_).value().holders.at(0).expires_in, 30s);
    EXPECT_EQ(other->ask("release_id " + id, "released_id"), "ok") << other->unread();
    expect_free(third, key_, 0ms);
    EXPECT_EQ(other->ask("release_id " + id, "released_id"), "not_owner") << other->unread();
    EXPECT_EQ(other->ask("renew_id 1000 " + id, "renewed_id"), "lost") << other->unread();
}

TEST_P(Conformance, a_detached_lease_ends_by_itself) {
    const Client client = open();
    const Client other = open();
    constexpr milliseconds lease_time = 600ms;
    Lease lease = take(client, key_, options(lease_time));
    const TimePoint usable_until = lease.usable_until();
    static_cast<void>(lease.detach());
    expect_free(other, key_, patience);
    EXPECT_GE(BootClock::now(), usable_until);
}

TEST_P(Conformance, a_detached_lock_can_be_adopted_and_is_then_held_like_ones_own) {
    const auto events = std::make_shared<Recorder>();
    const Client first = open();
    const Client second = open({}, events);
    const Client other = open();
    Lease lease = take(first, key_, options(1s));
    const auto fence = lease.fence();
    const LeaseId id = LeaseId::parse(lease.detach().text()).value();
    EXPECT_FALSE(lease.held());
    auto adopted = second.adopt(id, options(1s));
    ASSERT_TRUE(adopted) << adopted.error().message();
    EXPECT_TRUE(adopted->held());
    EXPECT_EQ(adopted->fence(), fence);
    EXPECT_EQ(adopted->id(), id);
    const LossWatch loss(*adopted);
    EXPECT_TRUE(events->wait_for(Event::Kind::renewed, 4)) << "past the lease of the first";
    EXPECT_FALSE(loss.told()) << adopted->lost_reason();
    expect_contended(other, key_);
    EXPECT_EQ(second.adopt(id, options(100ms)).error(), errc::invalid_argument) << "twice in one client";
    EXPECT_GT(other.show(key_)->holders.at(0).expires_in.value(), 150ms) << "a refusal shortens nothing";
    EXPECT_TRUE(adopted->release());
    EXPECT_EQ(second.adopt(id, options(1s)).error(), errc::lost) << "released";
    expect_higher(fence, expect_free(other, key_, 1s));
}

TEST_P(Conformance, what_is_not_held_cannot_be_adopted) {
    const Client client = open();
    const LeaseId ended = take(client, key_, options(100ms, 0ms, Renewing::manual)).detach();
    Lease next = take(client, key_, options(30s, patience));
    EXPECT_EQ(client.adopt(ended).error(), errc::lost) << "another holds by now";
    auto altered = next.id().secret();
    altered[0] ^= 1;
    EXPECT_EQ(client.adopt(LeaseId(key_, altered)).error(), errc::lost);
    EXPECT_EQ(client.adopt(LeaseId(Key("conformance/elsewhere"), next.id().secret())).error(), errc::lost);
    EXPECT_EQ(client.adopt(next.id(), {.lease = 1ms}).error(), errc::invalid_argument);
    EXPECT_TRUE(next.held());
    EXPECT_TRUE(next.release());
}

}  // namespace dlock::conformance
