// SPDX-License-Identifier: Apache-2.0
#include "core/text.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace dlock::core {
namespace {

using namespace std::string_view_literals;

TEST(Text, hex_has_two_lower_case_digits_a_byte) {
    EXPECT_EQ(to_hex("\x00\x7f\xff"sv), "007fff");
    EXPECT_EQ(hex_value('a'), 10);
    EXPECT_EQ(hex_value('F'), 15);
    EXPECT_EQ(hex_value('g'), -1);
}

TEST(Text, base64url_agrees_with_rfc_4648) {
    const std::vector<std::pair<std::string, std::string>> vectors = {
        {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff\xfe", "-__-"},
    };
    for (const auto& [bytes, text] : vectors) {
        EXPECT_EQ(to_base64url(bytes), text);
        EXPECT_EQ(from_base64url(text), bytes);
    }
}

TEST(Text, base64url_refuses_all_but_the_one_form) {
    for (const auto* text : {"Zg==", "Z", "Zh", "Zm9", "Zm+v", "Zm9 ", "Zm9vY"})
        EXPECT_FALSE(from_base64url(text)) << text;
}

RC_GTEST_PROP(Text, base64url_gives_any_bytes_back, (const std::string& bytes)) {
    RC_ASSERT(from_base64url(to_base64url(bytes)) == bytes);
}

TEST(Text, utf8_follows_the_table_of_rfc_3629) {
    const std::vector<std::pair<std::string_view, std::size_t>> cases = {
        {"a"sv, 1},
        {"\x00"sv, 1},
        {"\xC2\x80"sv, 2},
        {"\xDF\xBF"sv, 2},
        {"\xE0\xA0\x80"sv, 3},
        {"\xED\x9F\xBF"sv, 3},
        {"\xEE\x80\x80"sv, 3},
        {"\xEF\xBF\xBF"sv, 3},
        {"\xF0\x90\x80\x80"sv, 4},
        {"\xF4\x8F\xBF\xBF"sv, 4},
        {""sv, 0},
        {"\x80"sv, 0},              // continues nothing
        {"\xC0\xAF"sv, 0},          // overlong
        {"\xC1\xBF"sv, 0},          // overlong
        {"\xE0\x9F\xBF"sv, 0},      // overlong
        {"\xF0\x8F\xBF\xBF"sv, 0},  // overlong
        {"\xED\xA0\x80"sv, 0},      // surrogate
        {"\xED\xBF\xBF"sv, 0},      // surrogate
        {"\xF4\x90\x80\x80"sv, 0},  // past U+10FFFF
        {"\xF5\x80\x80\x80"sv, 0},
        {"\xFF"sv, 0},
        {"\xC3"sv, 0},          // cut
        {"\xE2\x82"sv, 0},      // cut
        {"\xE2\x82\x41"sv, 0},  // goes on wrongly
        {"\xF0\x9F\x98"sv, 0},  // cut
    };
    for (const auto& [text, length] : cases) EXPECT_EQ(utf8_length(text), length) << to_hex(text);
    EXPECT_TRUE(valid_utf8("a\u00e4\u20ac\U0001F600"));
    EXPECT_FALSE(valid_utf8("a\xE4z"));
}

TEST(Text, check_names_the_field_and_the_fix) {
    EXPECT_TRUE(check_text("note", std::string(8, 'x'), 8));
    const auto too_long = check_text("note", std::string(9, 'x'), 8);
    ASSERT_FALSE(too_long);
    EXPECT_EQ(too_long.error(), errc::invalid_argument);
    EXPECT_EQ(too_long.error().detail, "note has 9 bytes; use at most 8");
    const auto not_utf8 = check_text("txid", "\xff", 8);
    ASSERT_FALSE(not_utf8);
    EXPECT_EQ(not_utf8.error().detail, "txid is not UTF-8; give it as UTF-8 text");
}

}  // namespace
}  // namespace dlock::core
