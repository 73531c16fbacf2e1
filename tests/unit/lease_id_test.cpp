// SPDX-License-Identifier: Apache-2.0
#include "dlock/lease_id.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/ids.hpp"

namespace dlock {
namespace {

LeaseId sample() {
    LeaseId::Secret secret{};
    for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::uint8_t>(i * 17);
    return {Key{"billing/close"}, secret, "7587"};
}

// Written down once, so that ids kept by users stay readable for ever.
constexpr auto sample_text = "dl1_AQARIjNEVWZ3iJmqu8zd7v8ABDc1ODdiaWxsaW5nL2Nsb3NlPyC-Kg";

TEST(LeaseIdText, is_the_form_that_was_given_out_before) {
    EXPECT_EQ(sample().text(), sample_text);
    const auto parsed = LeaseId::parse(sample_text);
    ASSERT_TRUE(parsed) << parsed.error().message();
    EXPECT_EQ(*parsed, sample());
    EXPECT_EQ(parsed->handle(), "7587");
}

TEST(LeaseIdText, a_change_of_any_character_is_detected) {
    const std::string text = sample().text();
    for (std::size_t at = 0; at < text.size(); ++at) {
        for (const char other : std::string("AZaz09-_ =\n\xff")) {
            if (text[at] == other) continue;
            std::string changed = text;
            changed[at] = other;
            const auto parsed = LeaseId::parse(changed);
            ASSERT_FALSE(parsed) << changed;
            EXPECT_EQ(parsed.error(), errc::invalid_argument);
        }
    }
}

TEST(LeaseIdText, a_cut_or_longer_text_is_detected) {
    const std::string text = sample().text();
    for (std::size_t size = 0; size < text.size(); ++size)
        EXPECT_FALSE(LeaseId::parse(text.substr(0, size))) << size;
    EXPECT_FALSE(LeaseId::parse(text + "A"));
    EXPECT_FALSE(LeaseId::parse(text + "="));
    EXPECT_FALSE(LeaseId::parse(" " + text));
}

TEST(LeaseIdText, an_id_without_a_usable_key_is_refused) {
    EXPECT_FALSE(LeaseId::parse(LeaseId(Key{""}, {}).text()));
    EXPECT_FALSE(LeaseId::parse(LeaseId(Key{std::string(1025, 'x')}, {}).text()));
    EXPECT_TRUE(LeaseId::parse(LeaseId(Key{std::string(1024, 'x')}, {}).text()));
}

RC_GTEST_PROP(LeaseIdText, any_id_comes_back, (const LeaseId::Secret& secret, const std::string& handle)) {
    const auto bytes = *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::arbitrary<char>()));
    const LeaseId id(Key{bytes}, secret, handle);
    RC_ASSERT(LeaseId::parse(id.text()).value() == id);
}

TEST(LeaseIdText, public_id_is_that_of_the_stored_hash_and_shows_nothing_of_the_secret) {
    const LeaseId id = sample();
    EXPECT_EQ(id.public_id(), core::public_id(core::grant_id(id.secret())));
    EXPECT_EQ(id.public_id().size(), 12U);
    EXPECT_EQ(id.public_id().find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_NE(id.public_id(), core::grant_id(id.secret()).hex().substr(0, 12));
}

}  // namespace
}  // namespace dlock
