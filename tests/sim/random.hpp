// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>

namespace dlock::sim {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// SplitMix64: the same numbers from a seed with every compiler and library.
class Random {
public:
    explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

    std::uint64_t next() noexcept {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31U);
    }
    /// 0 .. n-1
    std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
    template <std::integral Int>
    Int between(Int least, Int most) noexcept {
        return least + static_cast<Int>(below(static_cast<std::uint64_t>(most - least) + 1));
    }
    nanoseconds between(nanoseconds least, nanoseconds most) noexcept {
        return nanoseconds(between(least.count(), most.count()));
    }
    milliseconds between(milliseconds least, milliseconds most) noexcept {
        return milliseconds(between(least.count(), most.count()));
    }
    bool chance(double of_one) noexcept { return static_cast<double>(next() >> 11U) * 0x1p-53 < of_one; }
    template <class T>
    T pick(std::initializer_list<T> of) noexcept {
        return *(of.begin() + below(of.size()));
    }

private:
    std::uint64_t state_;
};

}  // namespace dlock::sim
