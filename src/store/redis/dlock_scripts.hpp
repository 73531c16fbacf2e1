// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/redis/resp.hpp"

/// The rules of layout `dlock`, which run inside the server. The record of a mutex is a HASH with
///
///     v  "1:mutex": layout version and kind     g  id of the grant (hex); missing while free
///     f  last fence                             x  its expiry, s  its beginning: microseconds of the
///     w  "1" when anybody may stand in line         server's clock
///                                               o  its owner as JSON, behind a "-" when held off
///
/// and lives until one hour after the lease that was set last, or after its release where that is sooner by
/// another hour. Keys with many holders have another form: holders_scripts.hpp. Whoever finds no record looks
/// at the line. A ticket T is a member of the line with its arrival as score, and fields of `tickets`: T =
/// its expiry, T:o = "<client instance>;<owner JSON>", T:m = "s" of a reader, "p" of one who wants a permit.
/// What work that is done left is "<since>;<bytes of owner>;<owner JSON><result>" under `done`.
///
/// Refusals are {4, version}: the record is not of this version and kind. They and everything else that can
/// fail come before the first write, since Redis takes nothing back.
///
/// Rights: +evalsha +eval (and +time +get +getset +set +hmget +hget +hset +hdel +exists +pexpire +persist
/// +zadd +zrem +zrange +zrangebyscore +zrank +zscore +zcard +zcount +publish, which the scripts call),
/// +subscribe, +scan for lists, +client|setname and +role if allowed; keys ~dlock:*, channels &dlock:wake:*.
namespace dlock::store::redis {

/// Codes at the head of answers.
inline constexpr long long queued_code = 2;
inline constexpr long long contended_code = 3;
inline constexpr long long refused_code = 4;
inline constexpr long long limit_code = 5;
inline constexpr long long done_code = 6;
inline constexpr long long gone_code = 7;

struct DlockScripts {
    /// KEYS record, floor, line, tickets; ARGV attempt, lease ms, owner, and of those who join the line
    /// ticket, ticket lease ms, "rejoin" or "leave", instance. The fence as digits | {2, place, HOLDER} | {3,
    /// 0, HOLDER} | refusal, where HOLDER is id, fence, held us, left us, since us, owner; or nothing when
    /// the lock is free.
    Script acquire;
    /// With `done` as fifth key: also {6, what was left, now}.
    Script acquire_or_done;
    /// KEYS record, line, tickets; ARGV attempt, and the ticket where there is one. 1 released | 0 not owner
    /// | refusal.
    Script release;
    /// KEYS record, line, tickets, done; ARGV attempt, ticket or "", hold off ms or 0, id while held off, ms
    /// for which the result is kept or 0, result. As above.
    Script release_after;
    /// KEYS records; ARGV (id, lease ms) for each. One letter for each: r renewed, l lost.
    Script renew_leases;
    /// KEYS (record, line, tickets, held) for each; ARGV (ticket, lease ms) for each. Two integers for each:
    /// 0 lost, 1 renewed, 2 renewed and its turn; us that a present grant still runs, -1 when free. For keys
    /// of every kind.
    Script renew_tickets;
    /// KEYS record, line, tickets; ARGV grant id. 1 ended | 0 was free | 2 another one holds | refusal.
    Script force;
    /// KEYS (record, line, tickets, held) for each; ARGV how many tickets to show. For each: an error text,
    /// or nil when there is no record, or {version, id, left us, held us, since us, fence, owner, tickets in
    /// line, TICKETS, permits, HOLDERS, now us}, where TICKETS has (waited us, left us, owner, mode) for
    /// each, and HOLDERS, of keys with many, (id, left us, details) for each. For keys of every kind.
    Script look;
    /// KEYS record, line, tickets, floor. 1 dropped | 0 kept: held, waited for, not ours, or with a fence
    /// that the floor does not cover.
    Script forget;

    static const DlockScripts& get();
};

}  // namespace dlock::store::redis
