// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/waiting.hpp"

namespace dlock {

/// The store's worker thread, on its way out of the call that had brought the grant, could let go the last
/// reference to the engine, whose end then waited for that same thread: std::terminate.
TEST(Regress, the_last_lease_may_end_while_the_stores_thread_still_answers) {
    using namespace testing;
    const auto file =
        std::filesystem::temp_directory_path() / ("dlock-regress-" + std::to_string(getpid()) + ".db");
    const std::string url = "sqlite:" + file.string();
    AcquireOptions brief;
    brief.lease = 1s;
    brief.renewing = Renewing::manual;
    AcquireOptions patient;
    patient.wait = patience;
    for (int i = 0; i < 6; ++i) {
        const Client first = Client::open(url).value();
        const Client second = Client::open(url).value();
        const auto old = first.mutex(Key("lock")).try_acquire(brief);
        EXPECT_TRUE(old) << old.error().message();
        // Granted by a look at the end of the first one's lease, which is on the worker's thread.
        const auto next = second.mutex(Key("lock")).try_acquire(patient);
        EXPECT_TRUE(next) << next.error().message();
    }
    for (const char* suffix : {"", "-wal", "-shm", "-line"}) std::filesystem::remove(file.string() + suffix);
}

}  // namespace dlock
