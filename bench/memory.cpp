// SPDX-License-Identifier: Apache-2.0
// An uncontended pair on the memory store.
#include <mutex>

#include "dlock/dlock.hpp"
#include "support.hpp"

namespace bench {

void memory_one(const Settings& settings) {
    auto client = dlock::Client::open("memory:bench").value();
    auto mutex = client.mutex(dlock::Key{"bench"});
    std::timed_mutex bare;
    const auto pair_us = [&](const std::function<void()>& pair) {
        constexpr int batch = 32;  // short, so that most are not preempted
        Samples samples;
        for (const auto end = Clock::now() + settings.slice; Clock::now() < end;) {
            const auto begin = Clock::now();
            for (int i = 0; i < batch; ++i) pair();
            samples.push_back(micros(Clock::now() - begin) / batch);
        }
        return median(std::move(samples));
    };
    alternate(
        "memory-one", "us", settings.rounds,
        [&] { return pair_us([&] { mutex.try_acquire().value().release().value(); }); },
        [&] {
            return pair_us([&] {
                if (!bare.try_lock()) throw std::runtime_error("the bare mutex is held");
                bare.unlock();
            });
        });
}

}  // namespace bench
