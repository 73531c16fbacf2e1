// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "store/redis/resp.hpp"

/// Pieces that the scripts of layout `dlock` are put together from.
namespace dlock::store::redis {

template <class... Part>
Script script(Part... parts) {
    std::string source;
    (source.append(parts), ...);
    return Script(std::move(source));
}

// Lua's numbers are doubles: microseconds since 1970 are exact until the year 2255. A number given to
// redis.call is printed by '%.17g', which costs as much as a whole command, and so does '%.0f': constants are
// written as text, and digits() prints integers in two halves that fit in 32 bits.
inline constexpr std::string_view number_tools = R"lua(
local keep = 3600000
local function digits(n)
  if n < 10000000 then return string.format('%d', n) end
  local low = n % 10000000
  return string.format('%d%07d', (n - low) / 10000000, low)
end
)lua";

inline constexpr std::string_view clock = R"lua(
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
)lua";

// The first live ticket; nil when nobody waits; false while there are so many dead ones that the next call
// goes on.
inline constexpr std::string_view head = R"lua(
local function head(line, tix, now)
  for _ = 1, 100 do
    local first = redis.call('ZRANGE', line, '0', '0')[1]
    if not first then return nil end
    local x = tonumber(redis.call('HGET', tix, first) or 0)
    if x and x > now then return first end
    redis.call('ZREM', line, first)
    redis.call('HDEL', tix, first, first .. ':o', first .. ':m')
  end
  return false
end
)lua";

// Waking is a help, not a duty: where it fails (no right to publish), waiters look by themselves.
inline constexpr std::string_view wake = R"lua(
local function wake(line, tix, now)
  local first = head(line, tix, now)
  if not first then return end
  local o = redis.call('HGET', tix, first .. ':o')
  if o then redis.pcall('PUBLISH', 'dlock:wake:' .. string.match(o, '^[^;]*'), first) end
end
)lua";

// Takes or keeps the place of `ticket`. It is made anew where line or ticket was deleted by hand.
inline constexpr std::string_view stand = R"lua(
  function stand()
    local there = redis.call('ZRANK', line, ticket)
    local mine = tonumber(redis.call('HGET', tix, ticket) or 0)
    if not there or not mine or mine <= now then
      local tail = redis.call('ZRANGE', line, '-1', '-1', 'WITHSCORES')[2]
      redis.call('ZREM', line, ticket)
      redis.call('ZADD', line, digits(math.max(now, (tonumber(tail) or 0) + 1)), ticket)
      if mode ~= 'w' then redis.call('HSET', tix, ticket .. ':m', mode) end
    end
    redis.call('HSET', tix, ticket, digits(now + place_lease * 1000), ticket .. ':o', instance .. ';' .. owner)
    redis.call('PEXPIRE', line, keep + place_lease)
    redis.call('PEXPIRE', tix, keep + place_lease)
  end
)lua";

// A grant's fence; wants `f`, the last one of the record. Everything that can fail comes before it.
inline constexpr std::string_view new_fence = R"lua(
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
)lua";

// A grant takes the ticket out, or moves it to the tail, and tells whether anybody stands in line.
inline constexpr std::string_view leave_line = R"lua(
  local marks = rejoins
  if not alone then
    if ticket then
      redis.call('ZREM', line, ticket)
      redis.call('HDEL', tix, ticket, ticket .. ':o', ticket .. ':m')
    end
    marks = marks or redis.call('ZRANGE', line, '0', '0')[1]
  end
  if rejoins then stand() end
)lua";

// Marks the record while somebody stands in line.
inline constexpr std::string_view mark_line = R"lua(
  if marks and not w then redis.call('HSET', rec, 'w', '1') end
  if w and not marks then redis.call('HDEL', rec, 'w') end
)lua";

// Not granted: takes a place where there is a ticket. What is known of a holder goes behind.
inline constexpr std::string_view not_granted = R"lua(
local answer = {3, 0}
if ticket then
  stand()
  if known and not w then redis.call('HSET', rec, 'w', '1') end
  answer = {2, redis.call('ZRANK', line, ticket)}
end
)lua";

// Calls visit(ticket, mode) of the live tickets in order until it answers true; dead ones go in passing.
// False after 1,000 of them.
inline constexpr std::string_view walk = R"lua(
local function walk(line, tix, now, visit)
  local at, dead = 0, 0
  for _ = 1, 100 do
    local some = redis.call('ZRANGE', line, string.format('%d', at), string.format('%d', at + 9))
    if #some == 0 then return true end
    local ask = {}
    for i, one in ipairs(some) do ask[2 * i - 1], ask[2 * i] = one, one .. ':m' end
    local got = redis.call('HMGET', tix, unpack(ask))
    for i, one in ipairs(some) do
      local x = tonumber(got[2 * i - 1] or 0)
      if x and x > now then
        if visit(one, got[2 * i] or 'w') then return true end
        at = at + 1
      else
        dead = dead + 1
        if dead > 100 then return false end
        redis.call('ZREM', line, one)
        redis.call('HDEL', tix, one, one .. ':o', one .. ':m')
      end
    end
  end
  return false
end
)lua";

// Whether the ticket (nil: a newcomer) has fewer than `free` live ones ahead; a reader, readers only.
inline constexpr std::string_view enters = R"lua(
local function enters(line, tix, now, ticket, free, reads)
  local fits = true
  local seen = walk(line, tix, now, function(one, mode)
    if one == ticket then return true end
    free = free - 1
    fits = free > 0 and not (reads and mode ~= 's')
    return not fits
  end)
  return seen and fits
end
)lua";

// Wakes those who may come in beside `n` live holders: one who is alone, a run of readers, as many as there
// are permits (nil: of another kind).
inline constexpr std::string_view wake_turns = R"lua(
local function wake_turns(line, tix, now, n, writer, permits)
  local woken = 0
  walk(line, tix, now, function(one, mode)
    local fits = n + woken < (permits or 1)
    if not permits and mode == 's' then fits = not writer end
    if not fits then return true end
    woken = woken + 1
    local o = redis.call('HGET', tix, one .. ':o')
    if o then redis.pcall('PUBLISH', 'dlock:wake:' .. string.match(o, '^[^;]*'), one) end
    return not permits and mode ~= 's'
  end)
end
)lua";

}  // namespace dlock::store::redis
