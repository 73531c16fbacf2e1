// SPDX-License-Identifier: Apache-2.0
#include "core/ids.hpp"

#include <functional>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/blake2b.hpp"
#include "core/text.hpp"

namespace dlock::core {
namespace {

std::string hex(const Blake2b& hash) { return GrantId{hash}.hex(); }

TEST(Ids, hash_is_blake2b_with_16_bytes) {
    // `printf abc | b2sum -l 128`
    EXPECT_EQ(hex(blake2b("abc")), "cf4ab791c62b8d2b2109c90275287816");
    EXPECT_EQ(hex(blake2b("")), "cae66941d9efbd404e4d88758ea67670");
}

TEST(Ids, grant_id_is_the_hash_of_the_secret_and_public_id_the_hash_of_that) {
    LeaseId::Secret secret{};
    secret.fill(7);
    const GrantId grant = grant_id(secret);
    EXPECT_EQ(grant.bytes, blake2b(std::string(16, '\x07')));
    EXPECT_EQ(public_id(grant), hex(blake2b(grant.raw())).substr(0, 12));
}

TEST(Ids, random_bytes_differ_within_and_between_threads) {
    constexpr std::size_t per_thread = 2000;  // several refills each
    std::vector<std::vector<GrantId>> drawn(4);
    {
        std::vector<std::jthread> threads;
        for (auto& ids : drawn)
            threads.emplace_back([&ids] {
                for (std::size_t i = 0; i < per_thread; ++i) ids.push_back(random_id<GrantId>());
            });
    }
    std::set<GrantId> all;
    for (const auto& ids : drawn) all.insert(ids.begin(), ids.end());
    EXPECT_EQ(all.size(), drawn.size() * per_thread);
}

TEST(Ids, random_bytes_of_any_size_fill_the_whole_buffer) {
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{4000}, std::size_t{4088}, std::size_t{10'000}}) {
        std::vector<std::uint8_t> ored(size, 0);
        for (int round = 0; round < 64; ++round) {
            std::vector<std::uint8_t> bytes(size);
            random_bytes(bytes.data(), size);
            for (std::size_t i = 0; i < size; ++i) ored[i] = static_cast<std::uint8_t>(ored[i] | bytes[i]);
        }
        EXPECT_EQ(std::count(ored.begin(), ored.end(), 0), 0);
    }
}

/// What the child drew first.
GrantId first_draw_of_child(const std::function<pid_t()>& make_child) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = make_child();
    if (child == 0) {
        const auto id = random_id<GrantId>();
        _exit(write(ends[1], id.bytes.data(), id.bytes.size()) == 16 ? 0 : 1);
    }
    GrantId id;
    EXPECT_EQ(read(ends[0], id.bytes.data(), id.bytes.size()), 16);
    close(ends[0]);
    close(ends[1]);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    return id;
}

TEST(Ids, forked_child_does_not_repeat_its_parents_bytes) {
    random_id<GrantId>();  // the pool is filled before the fork
    std::set<GrantId> drawn;
    drawn.insert(first_draw_of_child([] { return fork(); }));
    drawn.insert(first_draw_of_child([] { return fork(); }));
    drawn.insert(
        first_draw_of_child([] { return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }));
    drawn.insert(random_id<GrantId>());
    EXPECT_EQ(drawn.size(), 4U);
}

}  // namespace
}  // namespace dlock::core
