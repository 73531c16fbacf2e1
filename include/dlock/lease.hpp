// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "dlock/lease_id.hpp"
#include "dlock/result.hpp"
#include "dlock/time.hpp"

namespace dlock {

namespace engine {
class Engine;
class LeaseState;
}  // namespace engine

/// One held lock. Alive: the client renews it (unless `Renewing::manual`). Destroyed: renewal stops and the
/// release is queued; the destructor does not wait for the network and never throws; the client repeats the
/// release until it is confirmed or the lease has passed anyway.
///
/// Before each step that must not run twice, ask `held()`, or give `lost()` to the work, or let the resource
/// check `fence()`. Movable; calls on one Lease from several threads are safe, moving it is not.
class Lease {
public:
    Lease(std::shared_ptr<engine::Engine> engine, std::shared_ptr<engine::LeaseState> state) noexcept;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();

    /// True while this client may believe that it holds: one atomic and one clock read, no call to the store.
    /// Once false, false for ever. In a forked child always false.
    [[nodiscard]] bool held() const noexcept;

    /// True when the lock is held now and stays so for `needed` even if no renewal succeeds.
    [[nodiscard]] bool valid_for(std::chrono::milliseconds needed) const noexcept;

    /// The moment `held()` turns false unless a renewal succeeds: send time + lease - margin.
    /// TimePoint::min() once released or lost.
    [[nodiscard]] TimePoint usable_until() const noexcept;

    /// The fence of this grant; none where the store has none.
    [[nodiscard]] std::optional<Fence> fence() const noexcept;

    /// Stops when the lease is lost (never by a normal release). Callbacks on it run on the delivery thread.
    [[nodiscard]] std::stop_token lost() const noexcept;

    /// True when no renewal can carry it further, since `max_hold` or `progress_within` is near or over; then
    /// `usable_until()` is final.
    [[nodiscard]] bool at_limit() const;

    /// Why it was lost; empty while it is not.
    [[nodiscard]] std::string lost_reason() const;

    /// Renews now, by one call to the store. `lost` when it is gone; `unavailable` or `unknown_outcome` when
    /// the store did not answer, in which case `held()` still tells the truth. Blocks up to the call
    /// time-out.
    Result<void> renew();

    /// Tells that the work goes on (`AcquireOptions::progress_within`). Cheap; any thread.
    void progress();

    /// Releases now and waits for the answer. `not_owner` or `lost`: the lock was no longer ours, so the work
    /// may have overlapped another holder's. `unknown_outcome`: no answer; the client goes on trying behind
    /// the scenes. A second call gives the first one's answer.
    Result<void> release();

    /// `release()` that leaves the result of the work for callers of `Client::once` on this key (once.hpp):
    /// they get it for `keep` in place of the lock. Errors, after which none is kept: those of `release()`,
    /// `lost` also when the lease is just over; `invalid_argument`, with the lock still held, when the result
    /// has more than `most_result` bytes or `keep` is not 1 ms to 365 days; `unsupported`, likewise. With
    /// joined Leases the last one leaves it. After `unknown_outcome` it may be kept or not.
    Result<void> finish(std::string result, std::chrono::milliseconds keep);
    static constexpr std::size_t most_result = 4096;

    /// A further Lease of the same grant, for a part of the work that may outlive this one: same id, same
    /// fence. The last of them to be released or destroyed frees the lock; `release()` of the others answers
    /// at once. `lost` when it is over.
    [[nodiscard]] Result<Lease> join() const;

    /// Stops renewing and forgets the lock without releasing it: it ends one lease from now, unless the
    /// returned id is renewed or released, here or in another process.
    [[nodiscard]] LeaseId detach();

    [[nodiscard]] LeaseId id() const;
    [[nodiscard]] const Key& key() const noexcept;

    /// `release()` without blocking; `done` runs on the delivery thread. For `dlock/asio.hpp`, which says
    /// `direct`.
    enum class Deliver { delivery_thread, direct };
    void start_release(std::function<void(Result<void>)> done, Deliver deliver = Deliver::delivery_thread);

private:
    friend class Client;
    friend class SharedMutex;

    std::shared_ptr<engine::Engine> engine_;
    std::shared_ptr<engine::LeaseState> state_;
    std::atomic<bool> parted_{false};  ///< released here while others of the same grant go on
};

/// Throws LockError (`not_owner`) unless some client of this process holds the key just now: for code that
/// relies on a lock which is taken elsewhere, around it. It does not tell who in the process holds it. Costs
/// a walk over all leases of the process.
void assert_held(const Key& key);

}  // namespace dlock
