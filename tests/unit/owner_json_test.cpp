// SPDX-License-Identifier: Apache-2.0
#include "store/owner_json.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace dlock::store {
namespace {

Owner full() {
    Owner owner;
    owner.service = "billing";
    owner.host = "web-3";
    owner.pid = 812;
    owner.instance = "5f1c";
    owner.biz_id = "order \"4711\"";
    owner.txid = "tx\n1";
    owner.note = "K\u00e4se by ann";
    return owner;
}

TEST(OwnerJson, is_one_compact_object) {
    EXPECT_EQ(to_json(full()),
              R"({"service":"billing","host":"web-3","instance":"5f1c","biz_id":"order \"4711\"",)"
              R"("txid":"tx\n1","note":"Käse by ann","pid":812})");
    EXPECT_EQ(to_json(Owner{}), "{}");
    EXPECT_EQ(owner_from_json(to_json(full())), full());
}

TEST(OwnerJson, reader_takes_what_it_can) {
    EXPECT_EQ(owner_from_json(R"({"service":"a","new_in_2030":[1,{"x":null}],"pid":7})").pid, 7);
    const Owner mixed = owner_from_json(R"({"service":5,"host":null,"pid":"7","note":"kept"})");
    EXPECT_EQ(mixed.service, "");
    EXPECT_EQ(mixed.pid, 0);
    EXPECT_EQ(mixed.note, "kept");
}

TEST(OwnerJson, damaged_text_is_an_owner_of_whom_nothing_is_recorded) {
    const std::string text = to_json(full());
    for (std::size_t size = 0; size < text.size(); ++size)
        EXPECT_EQ(owner_from_json(text.substr(0, size)), Owner{}) << size;
    for (const auto* damaged : {"[]", "null", "7", "\"x\"", "{\"service\":\"\xff\"}", "{}{}"})
        EXPECT_EQ(owner_from_json(damaged), Owner{}) << damaged;
}

TEST(OwnerJson, one_field_that_is_not_utf8_does_not_spoil_the_others) {
    Owner owner = full();
    owner.host = "web\xE4";
    EXPECT_EQ(owner_from_json(to_json(owner)).host, "web%E4");
    EXPECT_EQ(owner_from_json(to_json(owner)).note, owner.note);
}

RC_GTEST_PROP(OwnerJson, reader_never_fails_on_any_bytes, ()) {
    const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    owner_from_json(bytes);
    Owner owner;
    owner.note = bytes;
    owner.pid = *rc::gen::arbitrary<std::int64_t>();
    RC_ASSERT(owner_from_json(to_json(owner)).pid == owner.pid);
}

}  // namespace
}  // namespace dlock::store
