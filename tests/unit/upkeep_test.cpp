// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "dlock/dlock.hpp"
#include "support/redis_server.hpp"

/// What `Client::forget`, `check` and `scan` promise, on each store that has them.
namespace dlock {
namespace {

using namespace std::chrono_literals;

class Upkeep : public ::testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        if (GetParam() == "sqlite") {
            std::string name = (std::filesystem::temp_directory_path() / "dlock-upkeep-XXXXXX").string();
            ASSERT_NE(mkdtemp(name.data()), nullptr);
            folder_ = name;
            url_ = "sqlite:" + name + "/locks.db";
        } else {
            server_.emplace();
            url_ = server_->url();
        }
        client_.emplace(Client::open(url_).value());
    }
    void TearDown() override {
        client_.reset();
        if (!folder_.empty()) std::filesystem::remove_all(folder_);
    }

    std::uint64_t take_and_free(const Key& key) {
        Lease lease = client_->mutex(key).try_acquire().value();
        const std::uint64_t fence = lease.fence().value().value;
        lease.release().value();
        return fence;
    }
    std::size_t remembered() {
        Filter all;
        all.held_only = false;
        return client_->list(all).value().locks.size();
    }

    std::optional<testing::RedisServer> server_;
    std::string folder_;
    std::string url_;
    std::optional<Client> client_;
};

TEST_P(Upkeep, a_free_key_that_is_forgotten_has_higher_fences_all_the_same) {
    const Key key("k");
    std::uint64_t last = take_and_free(key);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(remembered(), 1U);
        client_->forget(key).value();
        EXPECT_EQ(remembered(), 0U);
        const std::uint64_t fence = take_and_free(key);
        EXPECT_GT(fence, last);
        last = fence;
    }
}

TEST_P(Upkeep, a_key_that_is_held_is_not_forgotten) {
    const Key key("k");
    Lease lease = client_->mutex(key).try_acquire().value();
    client_->forget(key).value();
    EXPECT_EQ(client_->show(key).value().holders.size(), 1U);
    EXPECT_TRUE(lease.renew());
    EXPECT_TRUE(lease.release());
}

TEST_P(Upkeep, forgetting_what_was_never_there_is_fine) {
    EXPECT_TRUE(client_->forget(Key("never")));
    EXPECT_EQ(client_->forget(Key("")).error(), errc::invalid_argument);
}

TEST_P(Upkeep, a_check_has_findings_and_changes_nothing) {
    take_and_free(Key("k"));
    const auto findings = client_->check().value();
    EXPECT_GT(findings.size(), 4U);
    for (const Finding& each : findings) {
        EXPECT_NE(each.severity, Severity::problem) << each.text;
        EXPECT_FALSE(each.subject.empty() || each.text.empty());
        EXPECT_EQ(each.severity == Severity::warning && each.fix.empty(), false) << each.text;
    }
    EXPECT_EQ(remembered(), 1U);
}

TEST_P(Upkeep, a_scan_refuses_a_cursor_that_is_none) {
    take_and_free(Key("k"));
    ScanRequest request;
    request.cursor = "%zz";
    EXPECT_EQ(client_->scan(request).error(), errc::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Stores, Upkeep, ::testing::Values("sqlite", "redis"),
                         [](const auto& store) { return store.param; });

TEST(UpkeepOfMemory, it_has_nothing_to_scan_and_forgets_by_itself) {
    const Client client = Client::open("memory:upkeep").value();
    EXPECT_EQ(client.scan().error(), errc::unsupported);
    EXPECT_TRUE(client.forget(Key("k")));
    EXPECT_EQ(client.check().value().at(0).subject, "scope");
}

TEST(UpkeepOfRedis, a_damaged_floor_is_left_as_it_is) {
    const testing::RedisServer server;
    const Client client = Client::open(server.url()).value();
    client.mutex(Key("k")).try_acquire().value().release().value();
    server.command({"SET", "dlock:floor", "no number"});
    client.forget(Key("k")).value();
    EXPECT_EQ(server.command({"GET", "dlock:floor"}), "no number");
    EXPECT_EQ(server.command({"EXISTS", "dlock:{k}"}), "1");
}

TEST(UpkeepOfRedis, a_key_that_is_waited_for_is_not_forgotten) {
    const testing::RedisServer server;
    const Client client = Client::open(server.url()).value();
    client.mutex(Key("k")).try_acquire().value().release().value();
    server.command({"ZADD", "dlock:{k}:line", "1", "00000000000000000000000000000001"});
    client.forget(Key("k")).value();
    EXPECT_EQ(server.command({"EXISTS", "dlock:{k}"}), "1");
}

}  // namespace
}  // namespace dlock
