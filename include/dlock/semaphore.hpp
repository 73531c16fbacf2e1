// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "dlock/lease.hpp"
#include "dlock/options.hpp"

namespace dlock {

/// At most so many holders of one key at a time, each with one permit and a lease of its own: a holder that
/// dies gives its permit back when its lease ends, and no other. The number belongs to the key: who asks with
/// another one gets `limit_differs`, until the key was forgotten (an hour after its last use). For a number
/// that changes while services run, set it with `Client::configure` and ask with `as_configured`. Waiters
/// are served in order of arrival. Otherwise as Mutex: no state of its own, any thread.
class Semaphore {
public:
    static constexpr std::uint32_t as_configured = 0;
    static constexpr std::uint32_t most = 1'000'000;

    Semaphore(std::shared_ptr<engine::Engine> engine, Key key, std::uint32_t permits) noexcept;

    /// One permit. As `Mutex::acquire` and the others there. `invalid_argument` when there are more permits
    /// than `most`.
    [[nodiscard]] Lease acquire(AcquireOptions options = {}, const Context& context = {});
    Result<Lease> try_acquire(AcquireOptions options = {}, const Context& context = {});
    void start_acquire(AcquireOptions options, Context context, std::function<void(Result<Lease>)> done,
                       Lease::Deliver deliver = Lease::Deliver::delivery_thread);

    [[nodiscard]] const Key& key() const noexcept { return key_; }

private:
    std::shared_ptr<engine::Engine> engine_;
    Key key_;
    std::uint32_t permits_;
};

}  // namespace dlock
