// SPDX-License-Identifier: Apache-2.0
#include "dlock/key.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/text.hpp"

namespace dlock {
namespace {

using namespace std::string_literals;

TEST(Key, text_shows_utf8_and_escapes_the_rest) {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"billing/close-month", "billing/close-month"},
        {"K\u00e4se \u20ac \U0001F512", "K\u00e4se \u20ac \U0001F512"},
        {"trailing ", "trailing "},
        {"100%", "100%25"},
        {"%2F", "%252F"},
        {"a\nb\t", "a%0Ab%09"},
        {"nul\0"s, "nul%00"},
        {"del\x7f", "del%7F"},
        {"\u0085\u009f\u00a0", "%C2%85%C2%9F\u00a0"},  // C1; a no-break space is not a control
        {"\xE4 latin", "%E4 latin"},
        {"\xC0\xAF", "%C0%AF"},
        {"\xED\xA0\x80", "%ED%A0%80"},
        {"cut\xE2\x82", "cut%E2%82"},
        {"\"quote's\\", "\"quote's\\"},
    };
    for (const auto& [bytes, text] : cases) {
        EXPECT_EQ(Key{bytes}.text(), text);
        EXPECT_EQ(Key::parse(text).value().bytes(), bytes);
    }
}

TEST(Key, text_form_reads_either_case_of_digits) {
    EXPECT_EQ(Key::parse("%e4%E4").value().bytes(), "\xE4\xE4");
    EXPECT_EQ(Key::parse("a%2fb").value().bytes(), "a/b");
}

TEST(Key, a_percent_sign_without_two_digits_is_refused) {
    for (const auto* text : {"%", "100%", "%1", "%g0", "%0g", "a%%41", "%-1"}) {
        const auto key = Key::parse(text);
        ASSERT_FALSE(key) << text;
        EXPECT_EQ(key.error(), errc::invalid_argument);
        EXPECT_NE(key.error().detail.find("%25"), std::string::npos);
    }
}

RC_GTEST_PROP(Key, any_bytes_come_back_from_their_text, ()) {
    const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    const std::string text = Key{bytes}.text();
    RC_ASSERT(core::valid_utf8(text));
    for (const char c : text) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    RC_ASSERT(Key::parse(text).value().bytes() == bytes);
}

TEST(Key, is_compared_byte_by_byte) {
    EXPECT_NE(Key{"\u00c4"}, Key{"A\u0308"});
    EXPECT_NE(Key{"a"}, Key{"A"});
    EXPECT_NE(Key{"a"}, Key{"a "});
    EXPECT_LT(Key{"a"}, Key{"b"});
}

TEST(Key, namespace_is_what_precedes_the_first_raw_slash) {
    EXPECT_EQ(Key{"billing/a/b"}.name_space(), "billing");
    EXPECT_EQ(Key{"plain"}.name_space(), "");
    EXPECT_EQ(Key{"/a"}.name_space(), "");
    EXPECT_EQ(Key{"a%2Fb"}.name_space(), "");
    EXPECT_EQ(Key::parse("a%2Fb").value().name_space(), "a");
}

TEST(Key, check_refuses_empty_and_too_long) {
    EXPECT_TRUE(Key{std::string(1024, 'x')}.check());
    EXPECT_TRUE(Key{"\0"s}.check());
    EXPECT_EQ(Key{""}.check().error(), errc::invalid_argument);
    EXPECT_EQ(Key{std::string(1025, 'x')}.check().error().detail,
              "the key has 1025 bytes; give 1 to 1024 bytes");
}

}  // namespace
}  // namespace dlock
