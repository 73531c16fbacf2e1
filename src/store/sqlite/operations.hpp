// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/sqlite/connection.hpp"
#include "store/sqlite/wakeups.hpp"
#include "store/store.hpp"

/// The calls of the seam on one connection. Those that take the database itself run inside the caller's
/// transaction or without one; what they answer holds once that is committed. The others block, up to the
/// deadline.
namespace dlock::store::sqlite {

/// Whom to wake once a change is written.
struct Wake {
    std::string address;
    TicketId ticket;
};

/// What an acquire leaves in the store besides the request.
struct Asker {
    std::string_view owner;  ///< as JSON
    Wakeups& wakeups;        ///< where this client is woken; opened only when it has to wait
};
AcquireAnswer acquire(db::Sqlite& db, const Shared& shared, const AcquireRequest& request,
                      const Asker& asker);

std::vector<RenewAnswer> renew(Connection& connection, const Shared& shared,
                               const std::vector<RenewItem>& items, TimePoint deadline);

struct ReleaseOutcome {
    Result<Released> answer;
    std::vector<Wake> wake;
};
ReleaseOutcome release(db::Sqlite& db, const Shared& shared, const ReleaseRequest& request);

struct ForceOutcome {
    Result<Forced> answer;
    std::vector<Wake> wake;
};
ForceOutcome force_release(db::Sqlite& db, const Shared& shared, const Key& key, std::string_view seen);

struct ConfigureOutcome {
    Result<Configured> answer;
    std::vector<Wake> wake;
};
ConfigureOutcome configure(db::Sqlite& db, const Shared& shared, const ConfigureRequest& request);

/// Forgets the key now, when it is free and nobody waits; the floor under the fences rises with it.
Result<void> forget_free(Connection& connection, const Key& key, TimePoint deadline);

/// Forgets up to 2000 keys that nobody used for an hour, from `cursor` on, which moves.
void clean_up(Connection& connection, const Shared& shared, std::string& cursor, TimePoint deadline);

}  // namespace dlock::store::sqlite
