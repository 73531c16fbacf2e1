// SPDX-License-Identifier: Apache-2.0
#include "store/url.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace dlock::store {
namespace {

std::string hosts(const Url& url) {
    std::string text;
    for (const HostPort& one : url.hosts)
        text += one.host + "|" + (one.port ? std::to_string(*one.port) : "-") + " ";
    return text;
}

TEST(Url, reads_every_form_of_the_design) {
    struct Case {
        std::string text, scheme, user, password, hosts, path;
    };
    const std::vector<Case> cases = {
        {"memory:name", "memory", "", "", "", "name"},
        {"sqlite:/var/lib/dlock/locks.db", "sqlite", "", "", "", "/var/lib/dlock/locks.db"},
        {"sqlite:rel/a%25b%3Fc.db", "sqlite", "", "", "", "rel/a%b?c.db"},
        {"sqlite:///var/locks.db", "sqlite", "", "", "", "/var/locks.db"},
        {"redis://10.0.0.5", "redis", "", "", "10.0.0.5|- ", ""},
        {"REDIS://h:6379/0", "redis", "", "", "h|6379 ", "/0"},
        {"redis://h1,h2:7000/1", "redis", "", "", "h1|- h2|7000 ", "/1"},
        {"redis+sentinel://h1,h2/name/0", "redis+sentinel", "", "", "h1|- h2|- ", "/name/0"},
        {"redis://:s%40cret@h", "redis", "", "s@cret", "h|- ", ""},
        {"redis://ann:p:w@x@h:1", "redis", "ann", "p:w@x", "h|1 ", ""},
        {"rediss://ann@[::1]:6380,[fe80::2]/", "rediss", "ann", "", "::1|6380 fe80::2|- ", "/"},
        {"dynamodb://table?region=eu-west-1", "dynamodb", "", "", "table|- ", ""},
    };
    for (const Case& one : cases) {
        const auto url = Url::parse(one.text);
        ASSERT_TRUE(url) << one.text << ": " << url.error().message();
        EXPECT_EQ(url->scheme, one.scheme);
        EXPECT_EQ(url->user, one.user);
        EXPECT_EQ(url->password, one.password);
        EXPECT_EQ(hosts(*url), one.hosts);
        EXPECT_EQ(url->path, one.path);
    }
}

TEST(Url, reads_parameters) {
    const auto url = Url::parse("redis://h?layout=plain&note=a%26b%3Dc&flag&&eq=1=2").value();
    const std::map<std::string, std::string> expected = {
        {"layout", "plain"}, {"note", "a&b=c"}, {"flag", ""}, {"eq", "1=2"}};
    EXPECT_EQ(url.params, expected);
}

TEST(Url, refuses_with_the_thing_and_the_fix) {
    struct Case {
        std::string text, words;
    };
    const std::vector<Case> cases = {
        {"", "begins with no scheme"},
        {"/var/lib/locks.db", "begins with no scheme"},
        {":x", "begins with no scheme"},
        {"re dis://h", "begins with no scheme"},
        {"redis://h:0", "the port of h"},
        {"redis://h:65536", "the port of h"},
        {"redis://h:", "the port of h"},
        {"redis://h:6379x", "the port of h"},
        {"redis://h:-1", "the port of h"},
        {"redis://,h2", "host name is empty"},
        {"redis://h1,", "host name is missing"},
        {"redis://h1,,h2", "host name is empty"},
        {"redis://:6379", "host name is empty"},
        {"redis://a b", "has a blank"},
        {"redis://::1", "in [ ]"},
        {"redis://[::1", "closing ]"},
        {"redis://[::1]6379", "behind the ]"},
        {"sqlite:/tmp/100%.db", "path has no two hexadecimal digits"},
        {"sqlite:/tmp/a%00b", "path has a zero byte"},
        {"redis://u:%zz@h", "password has no two"},
        {"redis://h?a=%", "parameter a has no two"},
        {"redis://h?a=1&a=2", "parameter a is given twice"},
    };
    for (const Case& one : cases) {
        const auto url = Url::parse(one.text);
        ASSERT_FALSE(url) << one.text;
        EXPECT_EQ(url.error(), errc::invalid_argument);
        EXPECT_NE(url.error().detail.find(one.words), std::string::npos)
            << one.text << ": " << url.error().detail;
    }
}

TEST(Url, errors_never_show_the_password) {
    for (const auto* text : {"redis://ann:hush@h:0", "redis://ann:hush@h,", "redis://ann:hush%@h"}) {
        const auto url = Url::parse(text);
        ASSERT_FALSE(url) << text;
        EXPECT_EQ(url.error().detail.find("hush"), std::string::npos) << url.error().detail;
    }
}

TEST(Url, redacted_hides_what_is_secret_and_nothing_else) {
    const auto shown = [](std::string_view text) { return Url::parse(text).value().redacted(); };
    EXPECT_EQ(shown("redis://ann:hush@h1:1,[::1]:2/0?layout=plain&sentinel_password=hush"),
              "redis://ann:***@h1:1,[::1]:2/0?layout=plain&sentinel_password=***");
    EXPECT_EQ(shown("redis://:hush@h"), "redis://:***@h");
    EXPECT_EQ(shown("redis://ann@h"), "redis://ann@h");
    EXPECT_EQ(shown("sqlite:/a%0Ab?sync=full"), "sqlite:/a%0Ab?sync=full");
    EXPECT_EQ(shown("dynamodb://t?secret_key=a&token=b"), "dynamodb://t?secret_key=***&token=***");
}

TEST(Url, unknown_parameter_is_named_with_the_known_ones) {
    const auto url = Url::parse("redis://h?layout=plain&layuot=x").value();
    EXPECT_TRUE(url.allow_params({"layout", "layuot"}));
    const auto refused = url.allow_params({"layout", "db"});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), errc::invalid_argument);
    EXPECT_EQ(refused.error().detail, "store URL: unknown parameter layuot; redis takes layout, db");
    EXPECT_EQ(Url::parse("memory:x?a=1").value().allow_params({}).error().detail,
              "store URL: unknown parameter a; memory takes none");
}

}  // namespace
}  // namespace dlock::store
