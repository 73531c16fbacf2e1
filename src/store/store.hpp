// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/ids.hpp"
#include "core/mode.hpp"
#include "core/record.hpp"
#include "dlock/check.hpp"
#include "dlock/inspect.hpp"
#include "dlock/result.hpp"
#include "dlock/time.hpp"
#include "store/capabilities.hpp"
#include "store/loop.hpp"

/// The seam: what the engine asks of a store, and all it knows of one.
namespace dlock::store {

using core::GrantId;
using core::TicketId;
using std::chrono::milliseconds;

/// Which way a call goes. `fresh`: another connection than those that have calls without answer.
enum class Route { usual, fresh };

/// After `deadline` nobody waits for the answer; a call not yet sent then must not be sent.
struct Call {
    TimePoint deadline;
    Route route = Route::usual;
};

/// Exactly one call of it per request, with the answer; on any thread, also before the call returns (then on
/// the caller's thread), never while the store holds a lock of its own. When a store is destroyed,
/// completions that are still due are dropped. The engine ignores answers that come after it stopped waiting.
template <class Answer>
using Completion = std::function<void(Answer)>;

/// What an acquisition is about; shared by the attempt, its lease and the calls in flight. Acquisitions
/// without a context of their own share one Owner, so a store may cache what it makes of it by the pointer.
struct Subject {
    Key key;
    std::shared_ptr<const Owner> owner;  ///< never null
    Subject(Key k, std::shared_ptr<const Owner> o) : key(std::move(k)), owner(std::move(o)) {}
};
using SubjectPtr = std::shared_ptr<const Subject>;

/// Whether and how to stand in line when the lock is not free (stores with `capabilities().lines`).
struct Place {
    enum class Line {
        none,  ///< answer contended; leave no trace
        join,  ///< keep or take the place of `ticket`; answer queued
    };
    enum class AfterGrant {
        leave,   ///< the ticket goes with the grant
        rejoin,  ///< the ticket moves to the tail: others of this process wait behind this attempt
    };
    Line line = Line::none;
    AfterGrant after_grant = AfterGrant::leave;
    TicketId ticket;  ///< all zero with Line::none
    milliseconds ticket_lease{5000};
};

struct AcquireRequest {
    SubjectPtr subject;
    GrantId attempt;
    core::Mode mode = core::Mode::exclusive;
    milliseconds lease{};
    Place place;
    std::uint32_t permits = 0;  ///< of Mode::permit: how many the key has; 0: as configured
    /// Not a new grant: the one of this attempt changes between `shared` and `write`, if its fence is still
    /// that one. Contended where it cannot; an Error `lost` where it is gone. The lease stays as it is.
    std::optional<Fence> converts;
    using Results = core::AcquireAsk::Results;
    Results results = Results::ignore;  ///< want: answer Done where the key has a result
};

/// The grant is written and starts to count in the store. A request repeated with the same attempt id while
/// its grant lives is answered with that same grant (same fence); its expiry is not moved.
struct Granted {
    std::optional<Fence> fence;
    std::string handle;                     ///< what renew and release need besides the id; mostly empty
    std::optional<TimePoint> counted_from;  ///< where the store knows better than "before the sending"
};
/// A place in line is written. `holder` is unset when the lock is free and others are ahead.
struct Queued {
    std::optional<HolderInfo> holder;
    std::size_t place = 0;  ///< tickets ahead; 0 is the head
};
/// Not had, nothing written. `retry_in`: when a look is worth while, where the store can tell.
struct Contended {
    std::optional<HolderInfo> holder;
    std::optional<milliseconds> retry_in;
};
/// There is nothing to do: it was done, and left this.
struct Done {
    std::string result;
    Owner owner;
    milliseconds age{};
    std::chrono::system_clock::time_point at;  ///< for display
};
/// An Error with Fault::indeterminate (errc::unknown_outcome) means: sent, and no answer. Fault::retry:
/// certainly not done. Fault::fatal: certainly not done, and repeating is of no use.
using AcquireAnswer = std::variant<Granted, Queued, Contended, Done, Error>;

/// One lease or one ticket to extend to now + `lease`.
struct RenewItem {
    SubjectPtr subject;
    std::variant<GrantId, TicketId> id;
    milliseconds lease{};
    std::string handle;
};
enum class Renewal {
    renewed,  ///< extended, counted from the sending
    held,     ///< still ours, not extended
    lost,     ///< certainly not ours any more
    unknown,  ///< no answer, or one that says nothing
};
struct RenewAnswer {
    Renewal renewal = Renewal::unknown;
    /// Tickets: nobody live is ahead and the lock is free, so an acquire is worth while now.
    bool turn = false;
    /// Tickets: how long the present holder's lease still runs.
    std::optional<milliseconds> holder_left;
    /// For `unknown`: why.
    std::string detail;
};

/// Ends what the attempt has: its grant, and the ticket when one is named. Safe to repeat.
struct ReleaseRequest {
    SubjectPtr subject;
    GrantId attempt;
    core::Mode mode = core::Mode::exclusive;  ///< not known of a bare LeaseId: `handle` has what is needed
    std::string handle;
    std::optional<TicketId> ticket;
    core::After after{};  ///< a result is at most 4 KiB
};
enum class Released {
    released,   ///< the grant was there and is gone
    not_owner,  ///< the attempt had no grant (any more)
};

/// How many permits a key has from now on; 0: as its clients say, once it is forgotten.
struct ConfigureRequest {
    Key key;
    std::uint32_t permits = 0;
    std::optional<std::uint32_t> if_current;  ///< only if it has so many now; 0: only if it is new
};
struct Configured {
    bool changed = false;
    std::uint32_t permits = 0;  ///< as they are now
};

struct InspectRequest {
    Filter filter;
    std::optional<Key> only;  ///< just this key, with its line; the filter is ignored
};

enum class Change {
    perhaps_mine,  ///< try again now
    lost,          ///< the ticket is gone
};
/// Keeps a watch alive. A callback that has begun may still be running when the destructor returns.
class Watch {
public:
    virtual ~Watch() = default;
};

/// One store. A caller that blocks for an answer may lend its thread for reading (blocked_caller.hpp), which
/// a store may use or ignore. Every call is safe from any thread. A call made on the loop's thread never
/// blocks; made on another thread it may do its own work there and finish at once, for a bounded time (an
/// SQLite statement).
class Store {
public:
    virtual ~Store() = default;

    [[nodiscard]] virtual const Capabilities& capabilities() const noexcept = 0;

    virtual void acquire(const AcquireRequest& request, Call call, Completion<AcquireAnswer> done) = 0;

    /// Answers in the order of the items. Not behind acquires: a connection of its own where that can matter.
    virtual void renew(std::vector<RenewItem> items, Call call,
                       Completion<std::vector<RenewAnswer>> done) = 0;

    virtual void release(const ReleaseRequest& request, Call call, Completion<Result<Released>> done) = 0;

    /// Calls back whenever the ticket's turn may have come, and once each time the way of notification is
    /// lost or regained. Null where the store cannot push.
    [[nodiscard]] virtual std::unique_ptr<Watch> watch(const SubjectPtr& subject, const TicketId& ticket,
                                                       std::function<void(Change)> changed) = 0;

    /// Reads only. Damaged and foreign records are rows. On another connection than renewals.
    virtual void inspect(const InspectRequest& request, Call call, Completion<Result<Page>> done) = 0;

    /// Ends the grant whose public id is `seen`, and no other.
    virtual void force_release(const Key& key, const std::string& seen, Call call,
                               Completion<Result<Forced>> done) = 0;

    /// Sets the number of permits; those that are out stay. An Error `limit_differs` of a key of another
    /// kind.
    virtual void configure(const ConfigureRequest& request, Call call,
                           Completion<Result<Configured>> done) = 0;
    /// Looks at rights, clock, persistence, replication and whatever else locks need here. Changes nothing.
    /// On another connection than renewals. An error only when the store could not be asked at all.
    virtual void check(Call call, Completion<Result<std::vector<Finding>>> done) = 0;
};

/// What a store gets from the engine at its opening.
struct StoreEnv {
    Loop& loop;
    std::string instance;  ///< random id of the client, for channels and wake-up addresses
    milliseconds call_timeout{};
};

}  // namespace dlock::store
