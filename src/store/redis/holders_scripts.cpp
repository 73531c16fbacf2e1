// SPDX-License-Identifier: Apache-2.0
#include "store/redis/holders_scripts.hpp"

#include "store/redis/script_parts.hpp"

namespace dlock::store::redis {
namespace {

// The record, checked. As with a mutex, no closures before the way of the free lock.
constexpr std::string_view record = R"lua(
local rec, held, id = KEYS[1], KEYS[2], ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local h = redis.call('HMGET', rec, 'v', 'f', 'w', 'e', 'l', 'x', 'p', id)
local known, f, w, e, l, x = h[1], 0, h[3], h[4], tonumber(h[5] or 0), tonumber(h[6] or 0)
local pinned, mine = h[7], h[8]
if known == '1:read_write' or known == '1:permits' then
  f = tonumber(h[2])
  if not f or not l or not x then return {4, 'damaged'} end
elseif known or redis.call('EXISTS', rec) == 1 then
  return {4, known or ''}
end
)lua";

// How many hold, and whether one of them is the writer. Dead ones go in passing.
constexpr std::string_view present = R"lua(
local n, writer = redis.call('ZCARD', held), false
if n > 0 then
  local at = t[1] .. string.format('%06d', t[2])
  local dead = redis.call('ZRANGEBYSCORE', held, '-inf', at, 'LIMIT', '0', '100')
  if #dead > 0 then
    redis.call('ZREM', held, unpack(dead))
    redis.call('HDEL', rec, unpack(dead))
    n = redis.call('ZCOUNT', held, '(' .. at, '+inf')
  end
  writer = e and n > 0 and tonumber(redis.call('ZSCORE', held, e) or 0) > now
end
)lua";

// Record and `held` outlive the grant that ends `lasts` ms from now by an hour. A new ZSET has no expiry yet.
constexpr std::string_view outlive = R"lua(
  local need = now + lasts * 1000 + 3600000000
  if x < need then
    x, n = need + 60000000, 0
    redis.call('HSET', rec, 'x', string.format('%.0f', x))
    if not pinned then redis.call('PEXPIRE', rec, string.format('%d', (x - now) / 1000)) end
  end
  if n == 0 then redis.call('PEXPIRE', held, string.format('%d', (x - now) / 1000)) end
)lua";

constexpr std::string_view acquire_begins = R"lua(
local floor, line, tix, mode, owner, ticket = KEYS[3], KEYS[4], KEYS[5], ARGV[3], ARGV[5], ARGV[6]
local rejoins = ARGV[8] == 'rejoin'
local kind = mode == 'p' and '1:permits' or '1:read_write'
if known and known ~= kind then return {4, known} end
if mode == 'p' then
  local wanted = tonumber(ARGV[4])
  if not known then l = wanted end
  if l == 0 or wanted ~= 0 and wanted ~= l then return {5, l} end
end
if mine and tonumber(redis.call('ZSCORE', held, id) or 0) > now then
  return string.match(mine, '^%d+;(%d+);') or {4, 'damaged'}
end
)lua";

constexpr std::string_view acquire_done = R"lua(
local done = redis.call('GET', KEYS[6])
if done then return {6, done, now} end
)lua";

// `free`: so many may come in, those in line before all others. Without the record nobody may while grants of
// it are out.
constexpr std::string_view acquire_looks = R"lua(
local free = 1 - n
if mode == 'p' then
  free = l - n
elseif mode == 's' then
  free = writer and 0 or 1000000
end
if not known and n > 0 then free = 0 end
local alone = free > 0 and (known and not w or not redis.call('ZRANGE', line, '0', '0')[1])
local grants, stand = alone, nil
if not alone or rejoins then
)lua";

constexpr std::string_view acquire_in_line = R"lua(
  local place_lease, instance = tonumber(ARGV[7]), ARGV[9]
)lua";

constexpr std::string_view acquire_enters = R"lua(
  if free > 0 and not alone then grants = enters(line, tix, now, ticket, free, mode == 's') end
end
if grants then
)lua";

constexpr std::string_view acquire_writes = R"lua(
  local us = t[2] + ARGV[2] * 1000
  local over = us % 1000000
  local details = since .. ';' .. number .. ';' .. mode .. ';' .. owner
  if mode == 'w' then
    redis.call('HSET', rec, 'v', kind, 'f', number, id, details, 'e', id)
  elseif known then
    redis.call('HSET', rec, 'f', number, id, details)
  else
    redis.call('HSET', rec, 'v', kind, 'f', number, id, details, 'l', ARGV[4])
  end
  if e and mode ~= 'w' then redis.call('HDEL', rec, 'e') end
  redis.call('ZADD', held, string.format('%d%06d', t[1] + (us - over) / 1000000, over), id)
  local lasts = ARGV[2]
)lua";

constexpr std::string_view acquire_ends = R"lua(
  return number
end
)lua";

constexpr std::string_view acquire_tells = R"lua(
if n > 0 then
  local at = t[1] .. string.format('%06d', t[2])
  local first = redis.call('ZRANGEBYSCORE', held, '(' .. at, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  local details = redis.call('HGET', rec, first[1]) or ''
  local since, fence, its, o = string.match(details, '^(%d+);(%d+);(%a);(.*)$')
  if since then
    answer[3], answer[4], answer[5] = first[1], tonumber(fence), now - since
    answer[6], answer[7], answer[8], answer[9] = first[2] - now, tonumber(since), o, its
  end
end
return answer
)lua";

// To shared always, to write as the single holder; by the fence that is named, so that a copy which comes
// late changes nothing back.
constexpr std::string_view convert_begins = R"lua(
local floor, line, tix, mode = KEYS[3], KEYS[4], KEYS[5], ARGV[2]
local kind = mode == 'p' and '1:permits' or '1:read_write'
if known and known ~= kind then return {4, known} end
if not mine or tonumber(redis.call('ZSCORE', held, id) or 0) <= now then return {7, 0} end
local first, told, its, o = string.match(mine, '^(%d+);(%d+);(%a);(.*)$')
if not told then return {4, 'damaged'} end
if its == mode then return told end
if told ~= ARGV[3] then return {3, 0} end
)lua";

constexpr std::string_view convert_ends = R"lua(
if mode == 's' then
  redis.call('HSET', rec, id, first .. ';' .. told .. ';s;' .. o)
  redis.call('HDEL', rec, 'e')
  if w then pcall(wake_turns, line, tix, now, n, false, nil) end
  return told
end
if n ~= 1 then return {3, 0} end
)lua";

constexpr std::string_view convert_rises = R"lua(
redis.call('HSET', rec, 'f', number, id, first .. ';' .. number .. ';w;' .. o, 'e', id)
return number
)lua";

// Where the record is missing the grant is lost already; what is left of it goes.
constexpr std::string_view release_begins = R"lua(
local line, tix, ticket = KEYS[3], KEYS[4], ARGV[2]
local score = redis.call('ZSCORE', held, id)
local freed = mine and score and tonumber(score) > now and 1 or 0
)lua";

constexpr std::string_view release_leaves = R"lua(
local hold, result_ms, kept = tonumber(ARGV[3]), tonumber(ARGV[5]), false
if ticket == '' then ticket = nil end
if freed == 1 and (hold > 0 or result_ms > 0) then
  local head, o = string.match(mine, '^(%d+;%d+;%a;)(.*)$')
  if not head then return {4, 'damaged'} end
  local since = t[1] .. string.format('%06d', t[2])
  if result_ms > 0 then redis.call('SET', KEYS[5], since .. ';' .. #o .. ';' .. o .. ARGV[6], 'PX', ARGV[5]) end
  if hold > 0 then
    local lasts, n = hold, 1
    redis.call('HSET', rec, ARGV[4], head .. '-' .. o)
    if e == id then redis.call('HSET', rec, 'e', ARGV[4]) end
    redis.call('ZADD', held, string.format('%.0f', now + hold * 1000), ARGV[4])
)lua";

constexpr std::string_view release_left = R"lua(
    kept = true
    redis.call('HDEL', rec, id)
    redis.call('ZREM', held, id)
  end
end
local ours = not kept and (mine or score)
)lua";

constexpr std::string_view release_plain = R"lua(
local ours = mine or score
)lua";

constexpr std::string_view release_ends = R"lua(
if ours then
  redis.call('ZREM', held, id)
  if e == id then redis.call('HDEL', rec, id, 'e') else redis.call('HDEL', rec, id) end
  if x > now + 7500000000 and redis.call('ZCARD', held) == 0 then
    redis.call('HDEL', rec, 'x')
    if not pinned then redis.call('PEXPIRE', rec, '3600000') end
  end
end
if not ticket and not (ours and (w or not known)) then return freed end
local moved = ours
if ticket then
  moved = redis.call('ZREM', line, ticket) == 1 or moved
  redis.call('HDEL', tix, ticket, ticket .. ':o', ticket .. ':m')
end
)lua";

constexpr std::string_view release_wakes = R"lua(
if moved then
  pcall(wake_turns, line, tix, now, n, writer or n > 0 and not known, known == '1:permits' and l or nil)
end
return freed
)lua";

// A grant is lost where either piece of it was deleted.
constexpr std::string_view renew_leases_body = R"lua(
local function renew(rec, held, id, lasts)
  local score = redis.pcall('ZSCORE', held, id)
  if type(score) ~= 'string' or tonumber(score) <= now then return 'l' end
  local h = redis.pcall('HMGET', rec, 'v', 'x', id, 'p')
  if not h[3] or h[1] ~= '1:read_write' and h[1] ~= '1:permits' then return 'l' end
  redis.call('ZADD', held, digits(now + lasts * 1000), id)
  local x, n, pinned = tonumber(h[2] or 0) or 0, 1, h[4]
)lua";

constexpr std::string_view renew_leases_ends = R"lua(
  return 'r'
end
local out = {}
for i = 1, #KEYS / 2 do
  out[i] = renew(KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i - 1], tonumber(ARGV[2 * i]))
end
return table.concat(out)
)lua";

constexpr std::string_view force_begins = R"lua(
local line, tix = KEYS[3], KEYS[4]
)lua";

constexpr std::string_view force_ends = R"lua(
if n == 0 then return 0 end
if tonumber(redis.call('ZSCORE', held, id) or 0) <= now then return 2 end
redis.call('ZREM', held, id)
redis.call('HDEL', rec, id)
if writer and e == id then
  redis.call('HDEL', rec, 'e')
  writer = false
end
n = n - 1
pcall(wake_turns, line, tix, now, n, writer, known == '1:permits' and l or nil)
return 1
)lua";

// The first argument is no id here, so nothing of the record is `mine`. A record without a grant ever and
// without a number of its own says nothing that a missing one would not.
constexpr std::string_view configure_begins = R"lua(
local line, tix, permits = KEYS[3], KEYS[4], tonumber(ARGV[1])
if known and known ~= '1:permits' then return {4, known} end
if ARGV[2] and tonumber(ARGV[2]) ~= l then return {0, l} end
)lua";

constexpr std::string_view configure_ends = R"lua(
if permits ~= 0 then
  redis.call('HSET', rec, 'v', '1:permits', 'f', h[2] or '0', 'l', ARGV[1], 'p', '1')
  if not known and redis.call('ZRANGE', line, '0', '0')[1] then redis.call('HSET', rec, 'w', '1') end
  redis.call('PERSIST', rec)
  l = permits
elseif known and f == 0 then
  redis.call('HDEL', rec, 'v', 'f', 'w', 'e', 'l', 'x', 'p')
elseif known then
  redis.call('HDEL', rec, 'p')
  redis.call('PEXPIRE', rec, string.format('%d', math.max(3600000, (x - now) / 1000)))
end
if known or permits ~= 0 then pcall(wake_turns, line, tix, now, n, false, l) end
return {1, l}
)lua";

}  // namespace

const HoldersScripts& HoldersScripts::get() {
    const auto acquire = [](std::string_view done) {
        return script(record, acquire_begins, done, present, acquire_looks, number_tools, walk, enters,
                      acquire_in_line, stand, acquire_enters, new_fence, leave_line, acquire_writes,
                      mark_line, outlive, acquire_ends, not_granted, acquire_tells);
    };
    static const HoldersScripts scripts{
        .acquire = acquire({}),
        .acquire_or_done = acquire(acquire_done),
        .convert =
            script(record, convert_begins, present, walk, wake_turns, convert_ends, new_fence, convert_rises),
        .release = script(record, release_begins, release_plain, release_ends, present, walk, wake_turns,
                          release_wakes),
        .release_after = script(record, release_begins, release_leaves, outlive, release_left, release_ends,
                                present, walk, wake_turns, release_wakes),
        .renew_leases = script(clock, number_tools, renew_leases_body, outlive, renew_leases_ends),
        .force = script(record, force_begins, present, walk, wake_turns, force_ends),
        .configure = script(record, configure_begins, present, walk, wake_turns, configure_ends),
    };
    return scripts;
}

}  // namespace dlock::store::redis
