// SPDX-License-Identifier: Apache-2.0
/// Waits for a limited time, and tells the ways apart in which a lock is not had.
#include <cstdio>
#include <string>

#include <dlock/dlock.hpp>

#include "support.hpp"

using namespace std::chrono_literals;

bool work_within(dlock::Mutex& mutex, std::chrono::milliseconds wait) {
    dlock::Context context;
    context.biz_id = "order 4711";
    context.note = "recount by ann";
    const auto got = mutex.try_acquire({.lease = 10s, .wait = wait}, context);
    if (got) {
        std::printf("held, fence %llu\n", static_cast<unsigned long long>(got->fence().value().value));
        return true;  // released where `got` goes out of scope
    }
    std::printf("not had: %s\n", got.error().message().c_str());
    switch (got.error().fault) {
        case dlock::Fault::none:
            break;  // an outcome of locking: contended, timed_out, cancelled
        case dlock::Fault::retry:
            std::puts("the store is away; nothing happened, try again later");
            break;
        case dlock::Fault::indeterminate:
            std::puts("no answer; what may have been granted is being withdrawn");
            break;
        case dlock::Fault::fatal:
            std::puts("somebody has to change something first");
            break;
    }
    return false;
}

int main() {
    const examples::TempFolder folder;
    const auto nightly = dlock::Client::open(folder.store(), {}, dlock::Identity{"nightly"}).value();
    const auto web = dlock::Client::open(folder.store(), {}, dlock::Identity{"web"}).value();
    dlock::Mutex mutex = web.mutex(dlock::Key{"stock/17"});

    dlock::Lease held = nightly.mutex(dlock::Key{"stock/17"}).acquire();
    const bool at_once = work_within(mutex, 0ms);
    const bool in_time = work_within(mutex, 200ms);
    held.release().value();
    const bool afterwards = work_within(mutex, 200ms);
    return !at_once && !in_time && afterwards ? 0 : 1;
}
