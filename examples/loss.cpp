// SPDX-License-Identifier: Apache-2.0
/// Work that stops when its lock is lost. Here somebody at another desk frees the lock by force.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include <dlock/dlock.hpp>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

/// Imports until it is done or the lock is lost. True when it was done.
bool import_rows(const dlock::Lease& lease, int rows) {
    const std::stop_token lost = lease.lost();
    std::mutex mutex;
    std::condition_variable_any next_row;
    for (int row = 0; row < rows; ++row) {
        if (!lease.held()) return false;  // one atomic and one clock read: ask before each step
        std::unique_lock lock(mutex);
        next_row.wait_for(lock, lost, 10ms, [] { return false; });  // a wait that the loss ends
    }
    return lease.held();
}

}  // namespace

int main() {
    const examples::TempFolder folder;
    const auto client = dlock::Client::open(folder.store()).value();
    const dlock::Key key{"import/customers"};
    dlock::Lease lease = client.mutex(key).try_acquire({.lease = 1s}).value();

    std::jthread operator_at_night([&] {
        const auto desk = dlock::Client::open(folder.store()).value();
        const auto seen = desk.show(key).value().holders.at(0).public_id;
        if (desk.force_release(key, seen).value() == dlock::Forced::done)
            std::printf("the operator freed %s\n", seen.c_str());
    });
    const bool done = import_rows(lease, 1000);  // 10 s of work
    std::printf("the import %s: %s\n", done ? "ended" : "stopped", lease.lost_reason().c_str());
    const auto released = lease.release();
    std::printf("release says: %s\n", released ? "released" : released.error().message().c_str());
    return !done && !released && released.error() == dlock::errc::lost ? 0 : 1;
}
