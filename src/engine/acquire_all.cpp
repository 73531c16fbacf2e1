// SPDX-License-Identifier: Apache-2.0
/// Several keys at once. Deadlock among those who do the same is impossible, since whoever waits holds only
/// keys that come earlier in one order of all keys.
#include <algorithm>
#include <atomic>
#include <utility>

#include "dlock/client.hpp"
#include "engine/engine.hpp"
#include "engine/gate.hpp"

namespace dlock {

namespace {

using Answers = std::vector<std::optional<Result<Lease>>>;

Error of_key(const Key& key, Error error) {
    error.detail = key.text() + ": " + error.detail;
    return error;
}

Result<void> in_order(std::vector<Key>& keys) {
    if (keys.empty()) return Error(errc::invalid_argument, "keys: none; give at least one");
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end())
        return Error(errc::invalid_argument,
                     "keys: " + twice->text() + " is there twice; give each one once");
    return {};
}

/// Asks for all without waiting, together.
Answers ask_all(engine::Engine& engine, const std::vector<Key>& keys, const AcquireOptions& options,
                const Context& context) {
    Answers answers(keys.size());
    std::atomic<std::size_t> missing{keys.size()};
    engine::Gate<bool> all;
    static_cast<void>(all.ask([&] {
        for (std::size_t i = 0; i < keys.size(); ++i) {
            engine.start_acquire(
                keys[i], {}, options, context,
                [&, i](Result<Lease> got) {
                    answers[i].emplace(std::move(got));
                    if (missing.fetch_sub(1, std::memory_order_acq_rel) == 1) all.put(true);
                },
                Lease::Deliver::direct);
        }
    }));
    return answers;
}

/// The leases, or the error that ends it all. `contended` only where nothing worse came.
Result<std::vector<Lease>> all_or_error(const std::vector<Key>& keys, Answers answers) {
    std::vector<Lease> leases;
    std::optional<Error> failed;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        Result<Lease>& got = *answers[i];
        if (got) {
            leases.push_back(std::move(*got));
        } else if (!failed || *failed == errc::contended) {
            failed = of_key(keys[i], got.error());
        }
    }
    if (failed) return *std::move(failed);  // what was had is released as `leases` dies
    return leases;
}

/// Each waits for its own; those that are had already are renewed meanwhile.
Result<std::vector<Lease>> one_by_one(const Client& client, const std::vector<Key>& keys,
                                      AcquireOptions options, const Context& context) {
    const bool limited = *options.wait != forever;
    const auto end = BootClock::now() + (limited ? *options.wait : std::chrono::milliseconds(0));
    std::vector<Lease> leases;
    for (const Key& key : keys) {
        if (limited) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - BootClock::now());
            options.wait = std::max(left, std::chrono::milliseconds(0));
        }
        auto got = client.mutex(key).try_acquire(options, context);
        if (!got) return of_key(key, got.error());
        leases.push_back(std::move(*got));
    }
    for (const Lease& lease : leases)
        if (!lease.held())
            return of_key(lease.key(),
                          Error(errc::lost, "lost while waiting for the others: " + lease.lost_reason()));
    return leases;
}

}  // namespace

Result<std::vector<Lease>> Client::acquire_all(std::vector<Key> keys, AcquireOptions options,
                                               const Context& context) const {
    if (auto ok = in_order(keys); !ok) return std::move(ok).error();
    if (auto ok = options.validate(); !ok) return std::move(ok).error();
    const auto wait = options.wait.value_or(std::chrono::milliseconds(0));
    const auto start = BootClock::now();
    options.wait = std::chrono::milliseconds(0);
    auto leases = all_or_error(keys, ask_all(*engine_, keys, options, context));
    if (leases || leases.error() != errc::contended || wait == options.wait) return leases;
    const auto used = std::chrono::floor<std::chrono::milliseconds>(BootClock::now() - start);
    options.wait = wait == forever ? forever : std::max(wait - used, std::chrono::milliseconds(0));
    return one_by_one(*this, keys, options, context);
}

}  // namespace dlock
