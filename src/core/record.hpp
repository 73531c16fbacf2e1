// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.hpp"
#include "core/mode.hpp"
#include "dlock/inspect.hpp"
#include "dlock/time.hpp"

/// The rules of one key: who gets the lock, who waits, who may renew and release. Pure: a record and two
/// times go in, the changed record and the answer come out. The memory store and the simulation live on these
/// functions, the SQLite store uses them under contention; other stores say the same in their own scripts.
namespace dlock::core {

using std::chrono::milliseconds;
using OwnerPtr = std::shared_ptr<const Owner>;  ///< null: not recorded

/// The store's two clocks at the moment of the call.
struct StoreTime {
    TimePoint now{};            ///< monotonic; decides leases and places
    std::uint64_t wall_us = 0;  ///< microseconds since 1970; decides nothing but the height of fences
};

/// One grant. Over as soon as `now >= expires`, whether or not anybody removed it.
struct Holder {
    GrantId id{};
    Mode mode = Mode::exclusive;
    OwnerPtr owner{};
    Fence fence{};
    TimePoint since{};
    TimePoint expires{};
    milliseconds lease{};       ///< 0: held off, the work has ended and the lock is not given on yet
    std::uint64_t wall_us = 0;  ///< of the grant, for display

    friend bool operator==(const Holder&, const Holder&) = default;
};

/// What work that is done once left for those who come after.
struct Done {
    std::string result{};
    OwnerPtr owner{};
    TimePoint at{};
    TimePoint until{};
    std::uint64_t wall_us = 0;  ///< of its end, for display

    friend bool operator==(const Done&, const Done&) = default;
};

/// One place in line; it has a lease of its own.
struct Ticket {
    TicketId id{};
    Mode mode = Mode::exclusive;
    OwnerPtr owner{};
    TimePoint arrival{};
    TimePoint expires{};
    std::string wake{};  ///< where its owner is woken; empty where the ticket's id is enough

    friend bool operator==(const Ticket&, const Ticket&) = default;
};

struct Record {
    Kind kind = Kind::mutex;
    std::uint32_t permits = 0;      ///< how many there are, of Kind::permits
    bool pinned = false;            ///< `permits` was configured, so the record is never forgotten
    std::uint64_t last_fence = 0;   ///< 0: nothing was ever granted
    std::vector<Holder> holders{};  ///< those that are over may stand there yet
    std::vector<Ticket> tickets{};  ///< in order of arrival
    std::optional<Done> done{};
    TimePoint touched{};  ///< last use that changed anything

    friend bool operator==(const Record&, const Record&) = default;
};

/// How an acquire stands in line.
struct Standing {
    enum class AfterGrant {
        leave,   ///< the ticket goes with the grant
        rejoin,  ///< the ticket moves to the tail
    };
    TicketId ticket{};
    milliseconds lease{};
    AfterGrant after_grant = AfterGrant::leave;
    std::string_view wake{};
};

struct AcquireAsk {
    GrantId attempt{};
    OwnerPtr owner{};
    Mode mode = Mode::exclusive;
    std::uint32_t permits = 0;  ///< how many there are; 0: as configured
    milliseconds lease{};
    std::optional<Standing> standing{};  ///< none: do not wait
    /// Change the mode of the grant that the attempt has, if its fence is still that one: a call that comes
    /// twice changes nothing back. To `shared` always, to `write` only while nobody else holds.
    std::optional<Fence> converts{};
    enum class Results { ignore, want };
    Results results = Results::ignore;  ///< want: a stored result is as good as the lock
};

enum class Acquiring {
    granted,        ///< `fence` is set; also the answer to a repeat while the grant lives
    queued,         ///< `ahead` live tickets are in front
    contended,      ///< not had, no trace left
    done,           ///< the record has a result
    lost,           ///< the grant to convert is not there (any more)
    kind_differs,   ///< the record is of another kind
    limit_differs,  ///< it has another number of permits, or none was ever given
};
struct AcquireOutcome {
    Acquiring what = Acquiring::contended;
    Fence fence{};
    std::size_t ahead = 0;
    std::vector<Ticket> wake{};  ///< after a conversion to `shared`
};

/// `floor`: the highest fence that was ever forgotten; it counts only where the key had no record.
AcquireOutcome acquire(Record& record, AcquireAsk ask, StoreTime time, std::uint64_t floor);

/// Extends to now + lease. False: lost, since the grant is not there or over. Never revives.
bool renew_lease(Record& record, const GrantId& id, milliseconds lease, TimePoint now);

struct TicketOutcome {
    bool alive = false;                         ///< false: the place is lost
    bool turn = false;                          ///< nobody live is ahead and the lock is free
    std::optional<milliseconds> holder_left{};  ///< how long the present grant still runs
};
TicketOutcome renew_ticket(Record& record, const TicketId& id, milliseconds lease, TimePoint now);

/// What a release leaves behind, if the grant was still there.
struct After {
    milliseconds hold_off{0};             ///< nobody gets the lock (this permit) for so long
    std::optional<std::string> result{};  ///< of work that is done once; kept for `keep`
    milliseconds keep{0};
};
struct ReleaseOutcome {
    bool released = false;       ///< false: the attempt had no grant (any more)
    std::vector<Ticket> wake{};  ///< those whose turn this call made come: never all who wait
};
/// Ends what the attempt has: its grant and, when named, the ticket.
ReleaseOutcome release(Record& record, const GrantId& attempt, const std::optional<TicketId>& ticket,
                       const After& after, StoreTime time);

struct ForceOutcome {
    Forced forced = Forced::already_free;
    std::vector<Ticket> wake{};
};
/// Ends the grant whose public id is `seen` and no other.
ForceOutcome force_release(Record& record, std::string_view seen, TimePoint now);

struct ConfigureOutcome {
    enum class What { changed, differs, kind_differs };
    What what = What::changed;
    std::uint32_t permits = 0;  ///< as they are now
    std::vector<Ticket> wake{};
};
/// Sets how many permits there are and pins the record; 0 unpins it. Grants that are out stay.
ConfigureOutcome configure(Record& record, std::uint32_t permits, std::optional<std::uint32_t> if_current,
                           TimePoint now);

/// A grant that counts, or null when the lock (every permit) is free.
const Holder* live_holder(const Record& record, TimePoint now) noexcept;

/// Drops every ticket that is over, wherever it stands, so that any number of dead waiters cost nothing
/// together; then those whose turn it is: the first, the readers before the first writer, as many as there
/// are permits.
std::vector<Ticket> turns(Record& record, TimePoint now);
void drop_expired_tickets(Record& record, TimePoint now);

/// Since when nothing of the record counts: clean-up may forget it some time after (and raises the floor
/// then).
TimePoint idle_since(const Record& record) noexcept;

}  // namespace dlock::core
