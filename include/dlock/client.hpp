// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dlock/check.hpp"
#include "dlock/election.hpp"
#include "dlock/inspect.hpp"
#include "dlock/mutex.hpp"
#include "dlock/observer.hpp"
#include "dlock/once.hpp"
#include "dlock/options.hpp"
#include "dlock/scan.hpp"
#include "dlock/semaphore.hpp"
#include "dlock/shared_mutex.hpp"

namespace dlock {

/// A connection to one store, with one engine thread for its deadlines and renewals. Make one a process and
/// store and share it: any thread, cheap to copy (copies share it). After fork() the child's copies are
/// inert: every call fails, destructors send nothing; open a new Client there.
class Client {
public:
    /// Checks the URL and the options and loads the store; makes no network call. See `docs/stores/` for the
    /// forms: `sqlite:/var/lib/dlock/locks.db`, `redis://10.0.0.5:6379/0`, `memory:name`.
    static Result<Client> open(std::string_view url, ClientOptions options = {}, Identity identity = {},
                               std::shared_ptr<Observer> observer = nullptr);

    explicit Client(std::shared_ptr<engine::Engine> engine) noexcept;
    Client(const Client&) = default;
    Client(Client&&) noexcept = default;
    Client& operator=(const Client&) = default;
    Client& operator=(Client&&) noexcept = default;
    ~Client();

    [[nodiscard]] Mutex mutex(Key key) const;
    [[nodiscard]] SharedMutex shared_mutex(Key key) const;
    /// `permits`: 1 to `Semaphore::most`, or `Semaphore::as_configured`.
    [[nodiscard]] Semaphore semaphore(Key key, std::uint32_t permits) const;

    /// Sets how many permits a key has, from now on and for good; those that are out stay, even when there
    /// are fewer now. With `if_current`: only if it has so many now (0: only if the key is new). 0 permits:
    /// the number stays, but the key is forgotten after its last use as others are. Answers what it has now.
    /// `limit_differs`: it has another number than `if_current`, or is no permits key. Blocks up to four
    /// times the call time-out.
    Result<std::uint32_t> configure(const Key& key, std::uint32_t permits,
                                    std::optional<std::uint32_t> if_current = std::nullopt) const;

    /// Takes several keys, all or none. All are asked for together; when one is busy and `options.wait` is
    /// set, what was had is given back and they are taken one after the other in the order of their bytes,
    /// so that two callers never wait for each other, as long as both ask here for all they need. The leases
    /// come in that order. Each is a lease of its own: the loss of one does not end the others, so ask them
    /// all. Errors are those of `Mutex::try_acquire` and name the key; a key twice is `invalid_argument`;
    /// `lost` when one that was had already ended while the others were waited for.
    Result<std::vector<Lease>> acquire_all(std::vector<Key> keys, AcquireOptions options = {},
                                           const Context& context = {}) const;

    /// Runs `work` under the lock of the key, unless a call of it here or elsewhere has left its result: then
    /// gives that. Callers that come while it runs wait for it. What it returns, at most `Lease::most_result`
    /// bytes, is kept for `options.keep`. When it throws, the lock is released without a result and the
    /// exception goes on; when this process dies in the middle, the next caller runs it. Ask `lease.held()`
    /// in it, or give it `lease.lost()`: it must neither release nor detach the lease.
    /// Errors beside those of `Mutex::try_acquire`: `lost` when the lease was over before the work ended, so
    /// that nothing is kept; `invalid_argument` when the result is too long, likewise; `unknown_outcome` when
    /// it was done and the store did not confirm that it has the result; `unsupported` where the store keeps
    /// none. Blocks; any thread.
    Result<Outcome> once(const Key& key, const std::function<std::string(Lease& lease)>& work,
                         const OnceOptions& options = {}, const Context& context = {}) const;
    /// The same for callers that come together and may share one result, such as a cache that is empty for
    /// all of them: it is kept for a second only.
    Result<Outcome> single_flight(const Key& key, const std::function<std::string(Lease& lease)>& work,
                                  const OnceOptions& options = {}, const Context& context = {}) const;
    /// The first half of `once` without blocking: `done` is called once, on the delivery thread (as
    /// `Mutex::start_acquire`), with the lock or the result. The second half is `Lease::finish`.
    void start_once(const Key& key, const OnceOptions& options, const Context& context,
                    std::function<void(Result<OnceStart>)> done,
                    Lease::Deliver deliver = Lease::Deliver::delivery_thread) const;

    /// Stands for the leadership of the key, on a thread of its own (Election). Fails at once for bad
    /// arguments only; `context.stop` says nothing here.
    Result<Election> campaign(const Key& key, Election::OnElected on_elected, Election::OnLost on_lost,
                              const ElectionOptions& options = {}, const Context& context = {}) const;

    /// One page of locks. Reads only; uses a connection of its own, so it delays no renewal.
    Result<Page> list(const Filter& filter = {}) const;
    /// One key with its holder and its line.
    Result<LockInfo> show(const Key& key) const;

    /// Ends the grant whose public id is `seen` (from `list` or `show`), whoever holds it; never another one.
    /// The holder's work goes on until it notices: fence the resource, or stop the holder first.
    Result<Forced> force_release(const Key& key, std::string_view seen) const;

    /// Extends a grant by its id, without a Lease: for processes that keep only the id's text.
    /// The new time runs from the call. `lost` when it is gone.
    Result<void> renew(const LeaseId& id, std::chrono::milliseconds lease) const;
    /// Frees a grant by its id. `not_owner` when it does not hold (any more).
    Result<void> release(const LeaseId& id) const;

    /// Makes a grant that was detached, here or by another process, a Lease of this client, by one renewal:
    /// it is renewed and released like one's own from now on. `options.wait` says nothing here; limits count
    /// from now. `lost`: it is released, has ended, or is of another store; `invalid_argument`: this client
    /// has it. Nothing keeps two processes from adopting one id: both renew, and the first release ends it
    /// for both. Blocks up to the call time-out for the renewal, and up to 10 s for the question what its
    /// fence is.
    Result<Lease> adopt(const LeaseId& id, const AcquireOptions& options = {},
                        const Context& context = {}) const;

    /// Looks whether the store can keep locks as it should: reach, rights, clock, eviction, persistence,
    /// replication, files. Changes nothing, and delays no renewal. Blocks up to three call time-outs, at
    /// least 3 s. An error (`unavailable`, `unauthorized`, ...) when the store could not be asked at all;
    /// what it cannot tell is a finding. Any thread.
    Result<std::vector<Finding>> check() const;

    /// One bounded step through the whole store, in search of locks of any program: see `FoundLock`. Reads
    /// only, and never all at once; go on with `next` until it is empty. A lock that comes or goes meanwhile
    /// may be missed or come twice. Blocks up to 10 s. `unsupported` where the store is only dlock's own
    /// (memory): use `list`. Any thread.
    Result<ScanPage> scan(const ScanRequest& request = {}) const;

    /// Drops what the store remembers of a key that is free, before it does so by itself (an hour after the
    /// last use): for throw-away keys. Fences of the key still rise. A key that is held or waited for stays
    /// as it is. Blocks up to the call time-out. Any thread.
    Result<void> forget(const Key& key) const;

    /// Ends every wait with `cancelled`, releases every lease, waits at most `ClientOptions::close_within`
    /// for the store's answers, then stops the thread. Every Lease of the client reads as not held
    /// afterwards. `unknown_outcome` when a release was not confirmed. Done by the last copy's destructor
    /// too.
    Result<void> close();

private:
    std::shared_ptr<engine::Engine> engine_;
};

/// The version of the library: "0.1.0".
std::string_view version() noexcept;

}  // namespace dlock
