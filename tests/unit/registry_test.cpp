// SPDX-License-Identifier: Apache-2.0
#include "store/registry.hpp"

#include <gtest/gtest.h>

#include "fake_loop.hpp"

namespace dlock::store {
namespace {

Error refusal(std::string_view url) {
    FakeLoop loop;
    auto opened = open_store(url, StoreEnv{loop, "instance", milliseconds(1000)});
    return opened ? Error(errc::lost, "opened") : opened.error();
}

TEST(Registry, opens_the_store_of_the_scheme) {
    FakeLoop loop;
    const auto store = open_store("memory:registry", StoreEnv{loop, "instance", milliseconds(1000)});
    ASSERT_TRUE(store) << store.error().message();
    EXPECT_EQ((*store)->capabilities().clock, Clock::boot);
}

TEST(Registry, unknown_scheme_is_answered_with_the_known_ones) {
    EXPECT_EQ(refusal("rediz://h"), errc::invalid_argument);
    EXPECT_EQ(refusal("rediz://h").detail,
              "store URL: unknown scheme rediz; use one of memory, sqlite, redis, rediss");
}

TEST(Registry, store_that_this_build_lacks_is_unsupported) {
    for (const auto* url :
         {"etcd://h", "zookeeper://h", "zk://h", "postgresql://h/db", "postgres://h/db", "mysql://h",
          "mariadb://h", "dynamodb://t", "redis+sentinel://h/n", "redis+cluster://h", "redis+quorum://h"})
        EXPECT_EQ(refusal(url), errc::unsupported) << url;
}

TEST(Registry, wrong_parameters_are_refused_by_each_store) {
    for (const auto* url : {"memory:x?nonsense=1", "sqlite:/tmp/x.db?nonsense=1", "redis://h?nonsense=1"}) {
        EXPECT_EQ(refusal(url), errc::invalid_argument) << url;
        EXPECT_NE(refusal(url).detail.find("nonsense"), std::string::npos) << refusal(url).detail;
    }
}

}  // namespace
}  // namespace dlock::store
