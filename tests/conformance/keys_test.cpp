// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "conformance/fixture.hpp"

namespace dlock::conformance {

namespace {

/// Every byte there is, in an order that is no valid UTF-8.
std::string all_bytes() {
    std::string bytes;
    for (int i = 255; i >= 0; --i) bytes.push_back(static_cast<char>(i));
    return bytes;
}

std::vector<std::string> awkward_keys() {
    using namespace std::string_literals;
    return {
        "a"s,
        "A"s,
        "a "s,
        " a"s,
        "a\t"s,
        "a\n"s,
        "a\r\n"s,
        "a\0"s,
        "\0"s,
        "\0a"s,
        "\xc3\x84"s,   // A with diaeresis, composed
        "A\xcc\x88"s,  // and decomposed
        "\xff"s,
        "\xfe\xff"s,
        "\xc3"s,
        all_bytes(),
        "'"s,
        "''"s,
        "\""s,
        "\\"s,
        "\\\\"s,
        "`"s,
        "a'; DROP TABLE locks; --"s,
        "/"s,
        "//"s,
        "a/b"s,
        "a//b"s,
        "a/"s,
        "/a"s,
        "a%2Fb"s,
        "a%252Fb"s,
        "%"s,
        "%%"s,
        "%2"s,
        "%zz"s,
        "{"s,
        "}"s,
        "{a}"s,
        "{a}b"s,
        "a}{b"s,
        "{}"s,
        "%7Ba%7D"s,
        "*"s,
        "?"s,
        "[a]"s,
        "a*"s,
        "a:b"s,
        "."s,
        ".."s,
        "../a"s,
        "-"s,
        "--help"s,
        std::string(1024, 'x'),
        std::string(1023, 'x') + "y",
        std::string(1023, 'x'),
        std::string(1024, '\xff'),
        std::string(1024, '%'),
    };
}

/// Every key of the store, a few rows at a time.
std::multiset<Key> list_all(const Client& client, std::size_t page_size) {
    std::multiset<Key> found;
    Filter filter;
    filter.limit = page_size;
    do {
        const Page page = client.list(filter).value();
        for (const LockInfo& lock : page.locks) {
            EXPECT_EQ(lock.problem, "") << lock.key.text();
            EXPECT_LE(page.locks.size(), page_size);
            found.insert(lock.key);
        }
        filter.cursor = page.next;
    } while (!filter.cursor.empty() && found.size() < 10'000);
    return found;
}

}  // namespace

TEST_P(Conformance, awkward_keys_are_all_distinct_and_come_back_from_list_and_show) {
    const Client holder = open();
    const Client other = open();
    std::vector<std::string> names = awkward_keys();
    for (std::string& extra : store().awkward_keys()) names.push_back(std::move(extra));
    std::vector<Lease> leases;
    for (const std::string& name : names) {
        auto got = holder.mutex(Key(name)).try_acquire(options(30s));
        ASSERT_TRUE(got) << Key(name).text() << ": " << got.error().message();
        leases.push_back(std::move(*got));
    }
    const std::multiset<Key> expected = [&] {
        std::multiset<Key> keys;
        for (const std::string& name : names) keys.insert(Key(name));
        return keys;
    }();
    EXPECT_TRUE(list_all(other, 7) == expected);
    EXPECT_TRUE(list_all(other, 1000) == expected);
    for (Lease& lease : leases) {
        SCOPED_TRACE(lease.key().text());
        expect_contended(other, lease.key());
        const LockInfo info = other.show(lease.key()).value();
        EXPECT_EQ(info.key, lease.key());
        ASSERT_EQ(info.holders.size(), 1U);
        EXPECT_EQ(info.holders.front().public_id, lease.id().public_id());
        EXPECT_EQ(Key::parse(lease.key().text()).value(), lease.key());
        EXPECT_EQ(LeaseId::parse(lease.id().text()).value(), lease.id());
        EXPECT_TRUE(lease.renew());
        EXPECT_TRUE(lease.release());
    }
    EXPECT_TRUE(list_all(other, 1000).empty());
}

TEST_P(Conformance, a_list_by_prefix_has_just_the_keys_that_begin_so) {
    const Client client = open();
    std::vector<Lease> leases;
    for (const char* name : {"ab/1", "ab/2", "ab%2F3", "aB/4", "ab", "a", "b/ab/5", "ab*6", "ab?7"}) {
        leases.push_back(take(client, Key(name), options(30s)));
    }
    const auto listed = [&](const std::string& prefix) {
        Filter filter;
        filter.prefix = prefix;
        std::set<std::string> names;
        const Page page = client.list(filter).value();
        for (const LockInfo& lock : page.locks) names.insert(lock.key.bytes());
        return names;
    };
    EXPECT_EQ(listed("ab/"), (std::set<std::string>{"ab/1", "ab/2"}));
    EXPECT_EQ(listed("ab"), (std::set<std::string>{"ab/1", "ab/2", "ab%2F3", "ab", "ab*6", "ab?7"}));
    EXPECT_EQ(listed("ab*"), (std::set<std::string>{"ab*6"}));
    EXPECT_EQ(listed("ab?"), (std::set<std::string>{"ab?7"}));
    EXPECT_EQ(listed("zz"), (std::set<std::string>{}));
}

TEST_P(Conformance, impossible_keys_and_times_are_refused_before_anything_is_written) {
    const Client client = open();
    const auto refused = [&](const Key& key, AcquireOptions how) {
        const auto got = client.mutex(key).try_acquire(how);
        return got ? std::string("granted") : word(got.error());
    };
    EXPECT_EQ(refused(Key(""), options(1s)), "invalid_argument");
    EXPECT_EQ(refused(Key(std::string(1025, 'x')), options(1s)), "invalid_argument");
    EXPECT_EQ(refused(key_, options(0ms)), "invalid_argument");
    EXPECT_EQ(refused(key_, options(-1s)), "invalid_argument");
    EXPECT_EQ(refused(key_, options(1ms)), "invalid_argument");
    EXPECT_EQ(refused(key_, options(milliseconds::max())), "invalid_argument");
    EXPECT_EQ(refused(key_, options(1s, -1ms)), "invalid_argument");
    Filter everything;
    everything.held_only = false;
    EXPECT_TRUE(client.list(everything).value().locks.empty());
}

}  // namespace dlock::conformance
