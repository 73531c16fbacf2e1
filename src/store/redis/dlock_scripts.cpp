// SPDX-License-Identifier: Apache-2.0
#include "store/redis/dlock_scripts.hpp"

namespace dlock::store::redis {
namespace {

// Lua's numbers are doubles: microseconds since 1970 are exact until the year 2255. A number given to
// redis.call is printed by '%.17g', which costs as much as a whole command, and so does '%.0f': constants are
// written as text, and digits() prints integers in two halves that fit in 32 bits.
constexpr std::string_view number_tools = R"lua(
local keep = 3600000
local function digits(n)
  if n < 10000000 then return string.format('%d', n) end
  local low = n % 10000000
  return string.format('%d%07d', (n - low) / 10000000, low)
end
)lua";

constexpr std::string_view clock = R"lua(
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
)lua";

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

// The first live ticket; nil when nobody waits; false while there are so many dead ones that the next call
// goes on.
constexpr std::string_view head = R"lua(
local function head(line, tix, now)
  for _ = 1, 100 do
    local first = redis.call('ZRANGE', line, '0', '0')[1]
    if not first then return nil end
    local x = tonumber(redis.call('HGET', tix, first) or 0)
    if x and x > now then return first end
    redis.call('ZREM', line, first)
    redis.call('HDEL', tix, first, first .. ':o')
  end
  return false
end
)lua";

// Waking is a help, not a duty: where it fails (no right to publish), waiters look by themselves.
constexpr std::string_view wake = R"lua(
local function wake(line, tix, now)
  local first = head(line, tix, now)
  if not first then return end
  local o = redis.call('HGET', tix, first .. ':o')
  if o then redis.pcall('PUBLISH', 'dlock:wake:' .. string.match(o, '^[^;]*'), first) end
end
)lua";

// Whoever stands in line marks the record, if there is one; so a free lock does not ask for the line.
constexpr std::string_view acquire_begins = R"lua(
local floor, line, tix, owner, ticket = KEYS[2], KEYS[3], KEYS[4], ARGV[3], ARGV[4]
local rejoins = ARGV[6] == 'rejoin'
local held = g and x > now
if held and g == id then return h[4] end
local alone = not held and (known and not w or not redis.call('ZRANGE', line, '0', '0')[1])
local grants, stand = alone, nil
if not alone or rejoins then
)lua";

constexpr std::string_view acquire_in_line = R"lua(
  local place_lease = tonumber(ARGV[5])
  function stand()
    local mine = tonumber(redis.call('HGET', tix, ticket) or 0)
    if not mine or mine <= now then
      local tail = redis.call('ZRANGE', line, '-1', '-1', 'WITHSCORES')[2]
      redis.call('ZREM', line, ticket)
      redis.call('ZADD', line, digits(math.max(now, (tonumber(tail) or 0) + 1)), ticket)
    end
    redis.call('HSET', tix, ticket, digits(now + place_lease * 1000), ticket .. ':o', ARGV[7] .. ';' .. owner)
    redis.call('PEXPIRE', line, keep + place_lease)
    redis.call('PEXPIRE', tix, keep + place_lease)
  end
  if not held and not alone then
    local first = head(line, tix, now)
    grants = first == nil or first == ticket
  end
end
)lua";

constexpr std::string_view acquire_ends = R"lua(
if grants then
  local since = t[1] .. string.format('%06d', t[2])
  local before = redis.call('GETSET', floor, since)
  local last = tonumber(before or 0)
  local fence, number = now, since
  if f >= fence then fence = f + 1 end
  if last and last >= fence then fence = last + 1 end
  if not last or fence >= 9007199254740992 then
    if before then redis.call('SET', floor, before) end
    return {4, last and 'damaged: no fences left' or 'damaged floor'}
  end
  if fence > now then
    local low = fence % 10000000
    number = string.format('%d%07d', (fence - low) / 10000000, low)
    redis.call('SET', floor, number)
  end
  local marks = rejoins
  if not alone then
    if ticket then
      redis.call('ZREM', line, ticket)
      redis.call('HDEL', tix, ticket, ticket .. ':o')
    end
    marks = marks or redis.call('ZRANGE', line, '0', '0')[1]
  end
  if rejoins then stand() end
  local us = t[2] + ARGV[2] * 1000
  local over = us % 1000000
  redis.call('HSET', rec, 'v', '1:mutex', 'f', number, 'g', id,
             'x', string.format('%d%06d', t[1] + (us - over) / 1000000, over), 's', since, 'o', owner)
  redis.call('PEXPIRE', rec, string.format('%d', ARGV[2] + 3600000))
  if marks and not w then redis.call('HSET', rec, 'w', '1') end
  if w and not marks then redis.call('HDEL', rec, 'w') end
  return number
end

local answer = {3, 0}
if ticket then
  stand()
  if known and not w then redis.call('HSET', rec, 'w', '1') end
  answer = {2, redis.call('ZRANK', line, ticket)}
end
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
  redis.call('HDEL', tix, ticket, ticket .. ':o')
end
if moved and (ours or not (g and x > now)) then pcall(wake, line, tix, now) end
return freed
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

constexpr std::string_view renew_tickets_body = R"lua(
local function renew(rec, line, tix, ticket, lease)
  local mine = redis.pcall('HGET', tix, ticket)
  if type(mine) ~= 'string' or (tonumber(mine) or 0) <= now then return 0, -1 end
  redis.call('HSET', tix, ticket, digits(now + lease * 1000))
  redis.call('PEXPIRE', line, keep + lease)
  redis.call('PEXPIRE', tix, keep + lease)
  local h = redis.pcall('HMGET', rec, 'g', 'x')
  local x = h[1] and tonumber(h[2] or 0) or 0
  if x > now then return 1, x - now end
  if head(line, tix, now) == ticket then return 2, -1 end
  return 1, -1
end
local out = {}
for i = 1, #KEYS / 3 do
  out[2 * i - 1], out[2 * i] =
    renew(KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], ARGV[2 * i - 1], tonumber(ARGV[2 * i]))
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

constexpr std::string_view look_body = R"lua(
local function tickets(line, tix)
  local out = {}
  if tonumber(ARGV[1]) == 0 then return out end
  local order = redis.pcall('ZRANGE', line, 0, tonumber(ARGV[1]) - 1, 'WITHSCORES')
  for i = 1, #order, 2 do
    local t = redis.pcall('HMGET', tix, order[i], order[i] .. ':o')
    local x = tonumber(t[1] or 0) or 0
    if x > now then
      local n = #out
      out[n + 1], out[n + 2] = now - order[i + 1], x - now
      out[n + 3] = string.match(t[2] or '', ';(.*)$') or ''
    end
  end
  return out
end
local function look(rec, line, tix)
  local h = redis.pcall('HMGET', rec, 'v', 'g', 'x', 's', 'f', 'o')
  if h.err then return h.err end
  if not h[1] and redis.call('EXISTS', rec) == 0 then return false end
  local waiting = redis.pcall('ZCARD', line)
  if type(waiting) ~= 'number' then waiting = 0 end
  local x, s = tonumber(h[3] or 0), tonumber(h[4] or 0)
  if h[1] == '1:mutex' and not (x and s and tonumber(h[5])) then h[1] = 'damaged' end
  x, s = x or 0, s or 0
  return {h[1] or '', h[2] or '', x - now, now - s, s, h[5] or '', h[6] or '', waiting, tickets(line, tix)}
end
local out = {}
for i = 1, #KEYS / 3 do out[i] = look(KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]) end
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

template <class... Part>
Script script(Part... parts) {
    std::string source;
    (source.append(parts), ...);
    return Script(std::move(source));
}

}  // namespace

const DlockScripts& DlockScripts::get() {
    static const DlockScripts scripts{
        .acquire = script(record, acquire_begins, number_tools, head, acquire_in_line, acquire_ends),
        .release = script(record, release_begins, head, wake, release_ends),
        .renew_leases = script(clock, number_tools, renew_leases_body),
        .renew_tickets = script(clock, number_tools, head, renew_tickets_body),
        .force = script(record, head, wake, force_body),
        .look = script(clock, look_body),
        .forget = Script(std::string(forget_body)),
    };
    return scripts;
}

}  // namespace dlock::store::redis
