// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "support/fault_store.hpp"

namespace dlock {
namespace {

using namespace std::chrono_literals;

/// A client whose store takes in every call of this kind and never answers it.
Client silent_for(testing::Op silent) {
    const auto plan = std::make_shared<testing::FaultPlan>();
    plan->set([silent](testing::Op op, std::size_t) {
        return op == silent ? testing::Harm::silent_after : testing::Harm::none;
    });
    ClientOptions options;
    options.call_timeout = 50ms;
    return Client(
        engine::Engine::create(testing::faulty("memory:silent", plan), options, Identity("test"), nullptr)
            .value());
}

template <class T>
void expect_unknown(const Result<T>& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error(), errc::unknown_outcome) << result.error().message();
    EXPECT_EQ(result.error().fault, Fault::indeterminate);
}

}  // namespace

/// A change by id or by force that had no answer was told as `unavailable`, fault retry: "nothing happened".
TEST(Regress, a_change_without_an_answer_is_an_unknown_outcome) {
    Client keeper = Client::open("memory:silent").value();  // the space lives as long as somebody has it open
    const LeaseId id = keeper.mutex(Key("lock")).acquire().detach();
    expect_unknown(silent_for(testing::Op::renew).renew(id, 10s));
    expect_unknown(silent_for(testing::Op::force_release).force_release(Key("lock"), id.public_id()));
    const LeaseId other = keeper.mutex(Key("other")).acquire().detach();
    expect_unknown(silent_for(testing::Op::release).release(other));
}

}  // namespace dlock
