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
#include "dlock/inspect.hpp"
#include "dlock/time.hpp"

/// The rules of one key: who gets the lock, who waits, who may renew and release. Pure: a record and two
/// times go in, the changed record and the answer come out. The memory store and the simulation live on these
/// functions, the SQLite store uses them under contention; other stores say the same in their own scripts.
namespace dlock::core {

using std::chrono::milliseconds;
using OwnerPtr = std::shared_ptr<const Owner>;  ///< null: not recorded

/// What a key is for as long as it is remembered; another kind is refused.
enum class Kind : std::uint8_t { mutex, read_write, permits };
std::string_view to_string(Kind kind) noexcept;

/// The store's two clocks at the moment of the call.
struct StoreTime {
    TimePoint now{};            ///< monotonic; decides leases and places
    std::uint64_t wall_us = 0;  ///< microseconds since 1970; decides nothing but the height of fences
};

/// One grant. Over as soon as `now >= expires`, whether or not anybody removed it.
struct Holder {
    GrantId id{};
    OwnerPtr owner{};
    Fence fence{};
    TimePoint since{};
    TimePoint expires{};
    milliseconds lease{};
    std::uint64_t wall_us = 0;  ///< of the grant, for display

    friend bool operator==(const Holder&, const Holder&) = default;
};

/// One place in line; it has a lease of its own.
struct Ticket {
    TicketId id{};
    OwnerPtr owner{};
    TimePoint arrival{};
    TimePoint expires{};
    std::string wake{};  ///< where its owner is woken; empty where the ticket's id is enough

    friend bool operator==(const Ticket&, const Ticket&) = default;
};

struct Record {
    Kind kind = Kind::mutex;
    std::uint64_t last_fence = 0;  ///< 0: the key had no record
    std::optional<Holder> holder{};
    std::vector<Ticket> tickets{};  ///< in order of arrival
    TimePoint touched{};            ///< last use that changed anything

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
    Kind kind = Kind::mutex;
    milliseconds lease{};
    std::optional<Standing> standing{};  ///< none: do not wait
};

enum class Acquiring {
    granted,       ///< `fence` is set; also the answer to a repeat while the grant lives
    queued,        ///< `ahead` live tickets are in front
    contended,     ///< not had, no trace left
    kind_differs,  ///< the record is of another kind
};
struct AcquireOutcome {
    Acquiring what = Acquiring::contended;
    Fence fence{};
    std::size_t ahead = 0;
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

struct ReleaseOutcome {
    bool released = false;         ///< false: the attempt had no grant (any more)
    std::optional<Ticket> wake{};  ///< whom to wake: the live head, when this call made its turn come
};
/// Ends what the attempt has: its grant and, when named, the ticket.
ReleaseOutcome release(Record& record, const GrantId& attempt, const std::optional<TicketId>& ticket,
                       TimePoint now);

struct ForceOutcome {
    Forced forced = Forced::already_free;
    std::optional<Ticket> wake{};
};
/// Ends the grant whose public id is `seen` and no other.
ForceOutcome force_release(Record& record, std::string_view seen, TimePoint now);

/// The grant that counts, or null when the lock is free.
const Holder* live_holder(const Record& record, TimePoint now) noexcept;

/// Drops every ticket that is over, wherever it stands, so that any number of dead waiters cost nothing
/// together; then the first in line, or null.
const Ticket* head(Record& record, TimePoint now);

/// Since when nothing of the record counts: clean-up may forget it some time after (and raises the floor
/// then).
TimePoint idle_since(const Record& record) noexcept;

}  // namespace dlock::core
