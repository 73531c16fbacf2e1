// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/redis/resp.hpp"

/// The rules of keys with many holders in layout `dlock`: readers and writers, permits. The record is a HASH
/// with
///
///     v  "1:read_write" or "1:permits"       e  id of the writer, while there is one
///     f  last fence, 0 before the first      l  how many permits there are
///     w  "1" when anybody may stand in line  p  "1" when that was configured: the record never expires
///     x  until when record and `held` live   and for each holder: its id (hex) =
///     "<since>;<fence>;<mode>;<owner
///                                            JSON>", where mode is w, s or p, and the owner follows a "-"
///                                            when held off
///
/// Who holds is told by `held`, a ZSET of the ids by expiry; a grant is there and in the record, or lost. `x`
/// is set a minute further than needed, so that most grants need not move it. Line and tickets are those of
/// dlock_scripts.hpp, and so are the codes of answers; {5, n}: there are n permits, another number was
/// wanted.
namespace dlock::store::redis {

struct HoldersScripts {
    /// KEYS record, held, floor, line, tickets; ARGV attempt, lease ms, mode, permits or 0, owner, and of
    /// those who join the line ticket, ticket lease ms, "rejoin" or "leave", instance. Answers as for a
    /// mutex; HOLDER ends with the mode.
    Script acquire;
    /// With `done` as sixth key.
    Script acquire_or_done;
    /// KEYS record, held, floor, line, tickets; ARGV attempt, mode, fence. The fence as digits | {3, 0} | {7,
    /// 0}: the grant is gone | refusal.
    Script convert;
    /// KEYS record, held, line, tickets; ARGV attempt, and the ticket where there is one. 1 released | 0 not
    /// owner | refusal.
    Script release;
    /// KEYS record, held, line, tickets, done; ARGV attempt, ticket or "", hold off ms or 0, id while held
    /// off, ms for which the result is kept or 0, result. As above.
    Script release_after;
    /// KEYS (record, held) for each; ARGV (id, lease ms) for each. One letter for each: r renewed, l lost.
    Script renew_leases;
    /// KEYS record, held, line, tickets; ARGV grant id. 1 ended | 0 was free | 2 others hold | refusal.
    Script force;
    /// KEYS record, held, line, tickets; ARGV permits, and those there must be now where it matters. {1,
    /// permits now} | {0, permits now}: differs | refusal.
    Script configure;

    static const HoldersScripts& get();
};

}  // namespace dlock::store::redis
