// SPDX-License-Identifier: Apache-2.0
/// Work that is done once: a lock whose release leaves the result, and acquisitions that take that instead.
#include "dlock/once.hpp"

#include <utility>

#include "dlock/client.hpp"
#include "engine/engine.hpp"
#include "engine/gate.hpp"

namespace dlock {

using namespace std::chrono_literals;

namespace {

using Found = std::shared_ptr<std::optional<store::Done>>;

/// What an acquisition that would take a result as well came to.
Result<OnceStart> begun(Result<Lease> got, const Found& found) {
    if (got) return OnceStart(*std::move(got));
    // The result is there with `contended` only; another error may come after one was seen.
    if (got.error() != errc::contended || !*found) return std::move(got).error();
    store::Done& done = **found;
    Outcome outcome;
    outcome.result = std::move(done.result);
    outcome.by = std::move(done.owner);
    outcome.age = done.age;
    outcome.at = done.at;
    return OnceStart(std::move(outcome));
}

Result<OnceStart> begin(const Client& client, const Key& key, const OnceOptions& options,
                        const Context& context) {
    engine::Gate<Result<OnceStart>> gate;  // here is enough: the answer comes exactly once
    return *gate.ask([&] {
        client.start_once(
            key, options, context, [&gate](Result<OnceStart> start) { gate.put(std::move(start)); },
            Lease::Deliver::direct);
    });
}

/// Whether the store has the result, when the release that took it there went without answer. Nobody had left
/// one before, else the work had not run.
bool is_kept(const Client& client, const Key& key, const Outcome& outcome, OnceOptions options) {
    options.lock.wait = 0ms;
    const auto look = begin(client, key, options, {});
    const auto* known = look ? std::get_if<Outcome>(&*look) : nullptr;
    return known != nullptr && known->by == outcome.by && known->result == outcome.result;
}

}  // namespace

void Client::start_once(const Key& key, const OnceOptions& options, const Context& context,
                        std::function<void(Result<OnceStart>)> done, Lease::Deliver deliver) const {
    if (auto ok = options.validate(); !ok)
        return engine_->deliver([done = std::move(done), error = std::move(ok).error()] { done(error); },
                                deliver);
    auto lock = options.lock;
    if (!lock.wait) lock.wait = forever;
    auto found = std::make_shared<std::optional<store::Done>>();
    const engine::Engine::Wanted wanted{.result = found};
    engine_->start_acquire(
        key, wanted, lock, context,
        [done = std::move(done), found](Result<Lease> got) { done(begun(std::move(got), found)); }, deliver);
}

Result<Outcome> Client::once(const Key& key, const std::function<std::string(Lease& lease)>& work,
                             const OnceOptions& options, const Context& context) const {
    if (!work) return Error(errc::invalid_argument, "work: must be given");
    auto start = begin(*this, key, options, context);
    if (!start) return std::move(start).error();
    if (auto* known = std::get_if<Outcome>(&*start)) return std::move(*known);
    auto& lease = std::get<Lease>(*start);
    Outcome outcome;
    outcome.ran = true;
    outcome.result = work(lease);
    outcome.by = *lease.state_->subject->owner;
    auto finished = lease.finish(outcome.result, options.keep.value_or(24h));
    if (!finished && finished.error() == errc::unknown_outcome && is_kept(*this, key, outcome, options))
        finished = {};
    if (finished) return outcome;
    if (finished.error() == errc::invalid_argument) static_cast<void>(lease.release());
    if (finished.error() != errc::not_owner) return std::move(finished).error();
    return Error(errc::lost, "the lease had ended before the work; its result is not kept");
}

Result<Outcome> Client::single_flight(const Key& key, const std::function<std::string(Lease& lease)>& work,
                                      const OnceOptions& options, const Context& context) const {
    auto short_lived = options;
    if (!options.keep) short_lived.keep = 1s;
    return once(key, work, short_lived, context);
}

}  // namespace dlock
