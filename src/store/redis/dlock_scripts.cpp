// SPDX-License-Identifier: Apache-2.0
#include "store/redis/dlock_scripts.hpp"

#include "store/redis/script_parts.hpp"

namespace dlock::store::redis {
namespace {

// The record, checked: its grant, expiry, last fence and mark. Without closures, since making one costs as
// much as a command: what only contention needs is defined behind the way of the free lock.
constexpr std::string_view record = R"lua(
local rec, id = KEYS[1], ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local h = redis.call('HMGET', rec, 'v', 'g', 'x', 'f', 'w')
local known, g, x, f, w = h[1], h[2], 0, 0, h[5]
if known == '1:mutex' then
  x, f = tonumber(h[3] or 0), tonumber(h[4])
  if not x or not f then return {4, 'damaged'} end
elseif known or redis.call('EXISTS', rec) == 1 then
  return {4, known or ''}
end
)lua";

// Whoever stands in line marks the record, if there is one; so a free lock does not ask for the line.
constexpr std::string_view acquire_begins = R"lua(
local floor, line, tix, owner, ticket = KEYS[2], KEYS[3], KEYS[4], ARGV[3], ARGV[4]
local rejoins = ARGV[6] == 'rejoin'
local held = g and x > now
if held and g == id then return h[4] end
)lua";

// Only for those who want a result, so that others do not pay for it.
constexpr std::string_view acquire_done = R"lua(
local done = redis.call('GET', KEYS[5])
if done then return {6, done, now} end
)lua";

constexpr std::string_view acquire_looks = R"lua(
local alone = not held and (known and not w or not redis.call('ZRANGE', line, '0', '0')[1])
local grants, stand = alone, nil
if not alone or rejoins then
)lua";

// What stand() needs besides.
constexpr std::string_view stand_alone = R"lua(
  local place_lease, instance, mode = tonumber(ARGV[5]), ARGV[7], 'w'
)lua";

constexpr std::string_view acquire_in_line = R"lua(
  if not held and not alone then
    local first = head(line, tix, now)
    grants = first == nil or first == ticket
  end
end
)lua";

constexpr std::string_view acquire_grants = R"lua(
if grants then
)lua";

constexpr std::string_view acquire_ends = R"lua(
  local us = t[2] + ARGV[2] * 1000
  local over = us % 1000000
  redis.call('HSET', rec, 'v', '1:mutex', 'f', number, 'g', id,
             'x', string.format('%d%06d', t[1] + (us - over) / 1000000, over), 's', since, 'o', owner)
  redis.call('PEXPIRE', rec, string.format('%d', ARGV[2] + 3600000))
)lua";

constexpr std::string_view acquire_granted = R"lua(
  return number
end
)lua";

constexpr std::string_view acquire_tells = R"lua(
if held then
  local h = redis.call('HMGET', rec, 's', 'o')
  local since = tonumber(h[1] or now) or now
  answer[3], answer[4], answer[5] = g, f, now - since
  answer[6], answer[7], answer[8] = x - now, since, h[2] or ''
end
return answer
)lua";

constexpr std::string_view release_begins = R"lua(
local line, tix, ticket = KEYS[2], KEYS[3], ARGV[2]
local freed, ours = 0, g == id
if ours then
  if x > now then freed = 1 end
  redis.call('HDEL', rec, 'g', 'x', 's', 'o')
  if x > now + 3600000000 then redis.call('PEXPIRE', rec, '3600000') end
end
if not ticket and not (ours and w) then return freed end
)lua";

constexpr std::string_view release_ends = R"lua(
local moved = ours
if ticket then
  moved = moved or head(line, tix, now) == ticket
  redis.call('ZREM', line, ticket)
  redis.call('HDEL', tix, ticket, ticket .. ':o', ticket .. ':m')
end
if moved and (ours or not (g and x > now)) then pcall(wake, line, tix, now) end
return freed
)lua";

// The work has ended and left something: a result, or the lock is held off under an id that nobody has. What
// can fail comes first.
constexpr std::string_view release_leaves = R"lua(
local line, tix, ticket = KEYS[2], KEYS[3], ARGV[2] ~= '' and ARGV[2]
local hold, lasts = tonumber(ARGV[3]), tonumber(ARGV[5])
local freed, ours = 0, g == id
if ours and x > now then
  freed = 1
  local o = redis.call('HGET', rec, 'o') or ''
  local since = t[1] .. string.format('%06d', t[2])
  if lasts > 0 then redis.call('SET', KEYS[4], since .. ';' .. #o .. ';' .. o .. ARGV[6], 'PX', ARGV[5]) end
  if hold > 0 then
    ours = false
    redis.call('HSET', rec, 'g', ARGV[4], 'x', digits(now + hold * 1000), 'o', '-' .. o)
    redis.call('PEXPIRE', rec, digits(hold + keep))
  end
end
if ours then
  redis.call('HDEL', rec, 'g', 'x', 's', 'o')
  if x > now + 3600000000 then redis.call('PEXPIRE', rec, '3600000') end
end
if not ticket and not (ours and w) then return freed end
)lua";

// A record that is not ours in any way is no reason to fail the others of the batch.
constexpr std::string_view renew_leases_body = R"lua(
local out = {}
for i = 1, #KEYS do
  local h = redis.pcall('HMGET', KEYS[i], 'g', 'x')
  out[i] = 'l'
  if h[1] and h[1] == ARGV[2 * i - 1] and (tonumber(h[2] or 0) or 0) > now then
    local lease = tonumber(ARGV[2 * i])
    redis.call('HSET', KEYS[i], 'x', digits(now + lease * 1000))
    redis.call('PEXPIRE', KEYS[i], digits(lease + keep))
    out[i] = 'r'
  end
end
return table.concat(out)
)lua";

// Of a key whose record is missing nobody's turn comes while grants of it are out. A ticket of another kind
// than the record has by now gets its turn at the head, so that it asks and is refused.
constexpr std::string_view renew_tickets_body = R"lua(
local function first_to_end(held)
  local at = '(' .. digits(now)
  local n = redis.pcall('ZCOUNT', held, at, '+inf')
  if type(n) ~= 'number' or n == 0 then return 0, now - 1 end
  return n, tonumber(redis.call('ZRANGEBYSCORE', held, at, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2])
end
local function room(h, held, n, reads)
  if h[1] == '1:permits' then return (tonumber(h[4] or 0) or 0) - n end
  if h[1] ~= '1:read_write' or not reads then return n == 0 and 1 or 0 end
  if n == 0 or not h[5] then return 1000000 end
  return tonumber(redis.call('ZSCORE', held, h[5]) or 0) > now and 0 or 1000000
end
local function renew(rec, line, tix, held, ticket, lease)
  local mine = redis.pcall('HMGET', tix, ticket, ticket .. ':m')
  if mine.err or (tonumber(mine[1] or 0) or 0) <= now then return 0, -1 end
  local place = redis.pcall('ZRANK', line, ticket)
  if type(place) ~= 'number' then return 0, -1 end
  redis.call('HSET', tix, ticket, digits(now + lease * 1000))
  redis.call('PEXPIRE', line, keep + lease)
  redis.call('PEXPIRE', tix, keep + lease)
  local h = redis.pcall('HMGET', rec, 'v', 'g', 'x', 'l', 'e')
  local n, ends = 0, h[2] and tonumber(h[3] or 0) or 0
  if h[1] == '1:mutex' then
    n = ends > now and 1 or 0
  else
    n, ends = first_to_end(held)
  end
  local reads = h[1] == '1:read_write' and mine[2] == 's'
  local free = room(h, held, n, reads)
  if free > 0 and enters(line, tix, now, ticket, free, reads) then return 2, -1 end
  return 1, ends > now and ends - now or -1
end
local out = {}
for i = 1, #KEYS / 4 do
  out[2 * i - 1], out[2 * i] = renew(KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i],
                                     ARGV[2 * i - 1], tonumber(ARGV[2 * i]))
end
return out
)lua";

constexpr std::string_view force_body = R"lua(
local line, tix = KEYS[2], KEYS[3]
if not g or x <= now then return 0 end
if g ~= ARGV[1] then return 2 end
redis.call('HDEL', rec, 'g', 'x', 's', 'o')
redis.call('PEXPIRE', rec, '3600000')
pcall(wake, line, tix, now)
return 1
)lua";

// Many holders of many keys are shown in part, so that one answer stays within reason.
constexpr std::string_view look_body = R"lua(
local room = 10000
local function tickets(line, tix)
  local out = {}
  if tonumber(ARGV[1]) == 0 then return out end
  local order = redis.pcall('ZRANGE', line, 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
  for i = 1, #order, 2 do
    local t = redis.pcall('HMGET', tix, order[i], order[i] .. ':o', order[i] .. ':m')
    local x = tonumber(t[1] or 0) or 0
    if x > now then
      local n = #out
      out[n + 1], out[n + 2] = now - order[i + 1], x - now
      out[n + 3] = string.match(t[2] or '', ';(.*)$') or ''
      out[n + 4] = t[3] or ''
    end
  end
  return out
end
local function holders(rec, held)
  local most = math.min(1000, math.max(room, 1))
  local all = redis.pcall('ZRANGEBYSCORE', held, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', '0',
                          digits(most))
  local ids = {}
  for i = 1, #all, 2 do ids[#ids + 1] = all[i] end
  if #ids == 0 then return ids end
  local details, out = redis.call('HMGET', rec, unpack(ids)), {}
  for i, one in ipairs(ids) do
    out[3 * i - 2], out[3 * i - 1], out[3 * i] = one, all[2 * i] - now, details[i] or ''
  end
  room = room - #ids
  return out
end
local function look(rec, line, tix, held)
  local h = redis.pcall('HMGET', rec, 'v', 'g', 'x', 's', 'f', 'o', 'l')
  if h.err then return h.err end
  if not h[1] and redis.call('EXISTS', rec) == 0 then return false end
  local waiting = redis.pcall('ZCARD', line)
  if type(waiting) ~= 'number' then waiting = 0 end
  local many = h[1] == '1:read_write' or h[1] == '1:permits'
  local x, s, l = tonumber(h[3] or 0), tonumber(h[4] or 0), tonumber(h[7] or 0)
  if (h[1] == '1:mutex' or many) and not (x and s and l and tonumber(h[5])) then h[1], many = 'damaged', false end
  x, s = x or 0, s or 0
  return {h[1] or '', h[2] or '', x - now, now - s, s, h[5] or '', h[6] or '', waiting, tickets(line, tix),
          l or 0, many and holders(rec, held) or {}, now}
end
local out = {}
for i = 1, #KEYS / 4 do
  out[i] = look(KEYS[4 * i - 3], KEYS[4 * i - 2], KEYS[4 * i - 1], KEYS[4 * i])
end
return out
)lua";

// By an expiry in the past, since layout `dlock` asks for no right to DEL.
constexpr std::string_view forget_body = R"lua(
local h = redis.pcall('HMGET', KEYS[1], 'v', 'g', 'f')
if h.err or h[1] ~= '1:mutex' or h[2] then return 0 end
if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then return 0 end
local f = tonumber(h[3] or '')
if not f then return 0 end
local before = redis.call('GETSET', KEYS[4], h[3])
local floor = tonumber(before or 0)
if before and not (floor and floor <= f) then redis.call('GETSET', KEYS[4], before) end
if not floor then return 0 end
redis.call('PEXPIRE', KEYS[1], '-1')
return 1
)lua";

}  // namespace

const DlockScripts& DlockScripts::get() {
    const auto acquire = [](std::string_view done) {
        return script(record, acquire_begins, done, acquire_looks, number_tools, head, stand_alone, stand,
                      acquire_in_line, acquire_grants, new_fence, leave_line, acquire_ends, mark_line,
                      acquire_granted, not_granted, acquire_tells);
    };
    static const DlockScripts scripts{
        .acquire = acquire({}),
        .acquire_or_done = acquire(acquire_done),
        .release = script(record, release_begins, head, wake, release_ends),
        .release_after = script(record, number_tools, release_leaves, head, wake, release_ends),
        .renew_leases = script(clock, number_tools, renew_leases_body),
        .renew_tickets = script(clock, number_tools, walk, enters, renew_tickets_body),
        .force = script(record, head, wake, force_body),
        .look = script(clock, number_tools, look_body),
        .forget = script(forget_body),
    };
    return scripts;
}

}  // namespace dlock::store::redis
