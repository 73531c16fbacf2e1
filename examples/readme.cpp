// SPDX-License-Identifier: Apache-2.0
/// The README's first program. usage: readme [STORE-URL]; without one: an SQLite file in a temporary folder.
#include <cstdio>
#include <optional>
#include <stop_token>
#include <string>

#include "support.hpp"

// From here on it stands in the README.
#include <dlock/dlock.hpp>

using namespace std::chrono_literals;

void close_month(std::optional<dlock::Fence> fence, std::stop_token lost);

void nightly(const std::string& store) {
    auto client = dlock::Client::open(store).value();  // "sqlite:/var/lib/dlock/locks.db", "redis://10.0.0.5"
    auto mutex = client.mutex(dlock::Key{"billing/close-month"});
    {
        dlock::Lease lease = mutex.acquire();      // waits in line; throws LockError
        close_month(lease.fence(), lease.lost());  // lost() is a std::stop_token
    }                                              // released; never throws
    auto got = mutex.try_acquire({.lease = 10s, .wait = 2s});
    if (got)
        close_month(got->fence(), got->lost());
    else if (got.error() == dlock::errc::timed_out)
        std::puts(got.error().message().c_str());  // who holds it, since when, until when
}

void close_month(std::optional<dlock::Fence> fence, std::stop_token lost) {
    std::printf("closing the month with fence %llu, lock %s\n",
                static_cast<unsigned long long>(fence ? fence->value : 0),
                lost.stop_requested() ? "lost" : "held");
}

int main(int count, char** words) {
    const examples::TempFolder folder;
    nightly(count > 1 ? words[1] : folder.store());
    return 0;
}
