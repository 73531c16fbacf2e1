// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "engine/engine.hpp"
#include "support/fault_store.hpp"
#include "support/waiting.hpp"

namespace dlock {

/// A release whose answer was lost was repeated, found nothing any more, and was told as `not_owner`: "the
/// work may have overlapped", though it was our own release that had freed the lock.
TEST(Regress, a_release_with_a_lost_reply_is_no_overlap) {
    using namespace testing;
    for (const Harm harm : {Harm::unknown_after, Harm::silent_after}) {
        SCOPED_TRACE(to_string(harm));
        const auto plan = std::make_shared<FaultPlan>();
        const Client client(
            engine::Engine::create(faulty("memory:release-reply-lost", plan), {}, Identity("test"), nullptr)
                .value());
        Lease lease = client.mutex(Key("lock")).try_acquire().value();
        plan->fail_nth(1, harm);
        const auto released = lease.release();
        EXPECT_TRUE(released) << released.error().message();
        EXPECT_EQ(plan->fired(), 1U);
    }
}

/// But a grant that was forced away before we asked is still told as such.
TEST(Regress, a_release_after_a_forced_one_is_not_ours) {
    using namespace testing;
    const Client client = Client::open("memory:release-after-forced").value();
    const Client other = Client::open("memory:release-after-forced").value();
    Lease lease = client.mutex(Key("lock")).try_acquire().value();
    EXPECT_EQ(other.force_release(Key("lock"), lease.id().public_id()).value(), Forced::done);
    const auto released = lease.release();
    ASSERT_FALSE(released);
    EXPECT_EQ(word(released.error()), "not_owner");
}

}  // namespace dlock
