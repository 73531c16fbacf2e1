// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <dlock/dlock.hpp>

int main() {
    auto client = dlock::Client::open("memory:consume").value();
    auto mutex = client.mutex(dlock::Key{"consume/key"});
    const dlock::Lease lease = mutex.acquire();
    const auto second = mutex.try_acquire();
    const bool alone = lease.held() && !second && second.error() == dlock::errc::contended;
    std::printf("dlock %s: %s\n", std::string(dlock::version()).c_str(), alone ? "held alone" : "wrong");
    return alone ? 0 : 1;
}
