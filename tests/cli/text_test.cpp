// SPDX-License-Identifier: Apache-2.0
#include "cli/text.hpp"

#include <gtest/gtest.h>

namespace dlock::cli {
namespace {

using namespace std::chrono_literals;

TEST(Text, shell_words) {
    EXPECT_EQ(shell_quote("billing/close-month"), "billing/close-month");
    EXPECT_EQ(shell_quote(""), "''");
    EXPECT_EQ(shell_quote("a b"), "'a b'");
    EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
    EXPECT_EQ(shell_quote("$HOME`x`"), "'$HOME`x`'");
    EXPECT_EQ(shell_quote("~root"), "'~root'");
    EXPECT_EQ(shell_quote("Ä"), "'Ä'");
}

TEST(Text, printable_leaves_text_and_disarms_controls) {
    EXPECT_EQ(printable("50 % of Ä, 漢字 and 🙂"), "50 % of Ä, 漢字 and 🙂");
    EXPECT_EQ(printable("\x1b[2J\n\x7f"), "%1B[2J%0A%7F");
    EXPECT_EQ(printable("\xC2\x9B"), "%C2%9B");         // C1: CSI in one character
    EXPECT_EQ(printable("\xE2\x80\xAE"), "%E2%80%AE");  // right-to-left override
    EXPECT_EQ(printable("a\xFFz\xC3"), "a%FFz%C3");
    EXPECT_EQ(printable(std::string("\0", 1)), "%00");
}

TEST(Text, utf8_replaces_only_what_is_wrong) {
    EXPECT_EQ(utf8("Ä漢🙂\n"), "Ä漢🙂\n");
    EXPECT_EQ(utf8("a\xFFz"), "a\xEF\xBF\xBDz");
    EXPECT_EQ(utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
    EXPECT_EQ(utf8("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
    EXPECT_EQ(utf8("\xF4\x90\x80\x80").find('\xF4'), std::string::npos);      // past U+10FFFF
}

TEST(Text, owners) {
    Owner owner;
    EXPECT_EQ(describe(owner), "an unnamed owner");
    owner.pid = 7;
    EXPECT_EQ(describe(owner), "pid 7");
    owner.host = "web-3";
    EXPECT_EQ(describe(owner), "web-3 (pid 7)");
    owner.service = "billing";
    EXPECT_EQ(describe(owner), "billing@web-3 (pid 7)");
}

TEST(Text, modes_of_holders) {
    LockInfo lock;
    HolderInfo holder;
    holder.owner.service = "billing";
    for (const auto& [mode, text] : {std::pair("exclusive", "held by billing"),
                                     {"write", "held by billing"},
                                     {"shared", "read by billing"},
                                     {"permit", "held (a permit) by billing"}}) {
        holder.mode = mode;
        EXPECT_EQ(describe(holder), text);
    }
    lock.holders = {holder, holder};
    lock.permits = 3;
    EXPECT_EQ(describe(lock), "held (a permit) by billing and 1 more, 2 of 3 permits");
    holder.held_off = true;
    holder.expires_in = 18s;
    EXPECT_EQ(describe(holder), "held off after the work of billing, free in 18 s");
}

TEST(Text, work_that_is_done) {
    Outcome outcome;
    outcome.by.service = "billing";
    outcome.by.note = "by hand\n";
    outcome.age = 5min;
    EXPECT_EQ(describe(Key("k"), outcome), "k was done by billing, 5 min ago, \"by hand%0A\"");
}

TEST(Text, locks) {
    LockInfo lock;
    EXPECT_EQ(describe(lock), "free by now");
    HolderInfo holder;
    holder.owner.service = "billing";
    holder.owner.note = "deploy\n";
    holder.held_for = 12s;
    holder.expires_in = 18s;
    lock.holders.push_back(holder);
    lock.waiter_count = 2;
    EXPECT_EQ(describe(lock),
              "held by billing for 12 s, free in 18 s unless renewed, \"deploy%0A\"; 2 in line");
    lock.problem = "not ours";
    EXPECT_EQ(describe(lock), "the record has a problem: not ours");
}

}  // namespace
}  // namespace dlock::cli
