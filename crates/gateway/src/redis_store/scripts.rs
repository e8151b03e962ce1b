//! What the server of Redis does for us, whole or not at all.
//!
//! Each script touches keys of one name only, so that it also runs on a cluster of Redis.
//! Numbers that are compared are decimal text of [`DIGITS`] digits, because a number of Lua has
//! 53 bits. The entries of a log have one score, so that Redis orders them by their text, which
//! begins with the position.

/// Digits of an epoch or a position.
pub(super) const DIGITS: usize = 20;

/// KEYS claim; passing and lasting entries. ARGV owner, epoch, whether there is a record, the
/// record, milliseconds to keep it, entries and bytes of a log at most, then a position,
/// whether it lasts, and a payload for each entry.
pub(super) const WRITE: &str = r"
local o, e, b = unpack(redis.call('HMGET', KEYS[1], 'o', 'e', 'b'))
if e and (e > ARGV[2] or (e == ARGV[2] and o ~= ARGV[1])) then return {'F', o, e} end
redis.call('HSET', KEYS[1], 'o', ARGV[1], 'e', ARGV[2])
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'r', ARGV[4]) end
b = tonumber(b or '0')
for i = 8, #ARGV, 3 do
  local key = KEYS[ARGV[i + 1] == '1' and 3 or 2]
  if redis.call('ZADD', key, 0, ARGV[i] .. ARGV[i + 2]) == 1 then
    b = b + #ARGV[i + 2]
    while redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3]) > tonumber(ARGV[6])
      or b > tonumber(ARGV[7]) do
      local oldest = redis.call('ZPOPMIN', KEYS[2])[1] or redis.call('ZPOPMIN', KEYS[3])[1]
      if not oldest then b = 0 break end
      b = b - (#oldest - 20)
    end
  end
end
if #ARGV > 7 then redis.call('HSET', KEYS[1], 'b', b) end
for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[5]) end
return {'D'}
";

/// KEYS as above. ARGV expected owner and epoch, new owner and epoch, milliseconds to keep it,
/// until when.
pub(super) const TAKE: &str = r"
local o, e, r = unpack(redis.call('HMGET', KEYS[1], 'o', 'e', 'r'))
if not e then return {'N'} end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local timely = now <= tonumber(ARGV[6])
if (timely and o == ARGV[1] and e == ARGV[2]) or (o == ARGV[3] and e == ARGV[4]) then
  redis.call('HSET', KEYS[1], 'o', ARGV[3], 'e', ARGV[4])
  for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[5]) end
  return {'T', ARGV[3], ARGV[4], r or ''}
end
return {'C', o, e, r or ''}
";

/// KEYS as above. ARGV owner, epoch; the next epoch, or nothing to delete it.
pub(super) const CHANGE: &str = r"
local o, e = unpack(redis.call('HMGET', KEYS[1], 'o', 'e'))
if not e then return {'D'} end
if e > ARGV[2] or (e == ARGV[2] and o ~= ARGV[1]) then return {'F', o, e} end
if ARGV[3] == '' then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
else
  redis.call('HSET', KEYS[1], 'o', '', 'e', ARGV[3])
end
return {'D'}
";

/// KEYS as above.
pub(super) const READ_LOG: &str = r"
local all = redis.call('ZRANGE', KEYS[2], 0, -1)
for i = 1, #all do all[i] = '0' .. all[i] end
for _, lasting in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do all[#all + 1] = '1' .. lasting end
return all
";

/// KEYS members, and since when there are any. ARGV replica, milliseconds of its lease, its state.
pub(super) const RENEW: &str = r"
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('SET', KEYS[2], string.format('%.0f', now), 'NX')
local born = tonumber(redis.call('GET', KEYS[2]))
local reply = {0, math.max(now - born, 0), now}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local colon = string.find(all[i + 1], ':', 1, true)
  if tonumber(string.sub(all[i + 1], 1, colon - 1)) <= now then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] == ARGV[1] then
    reply[1] = 1
  else
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = string.sub(all[i + 1], colon + 1)
  end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + ARGV[2]) .. ':' .. ARGV[3])
reply[#reply + 1] = ARGV[1]
reply[#reply + 1] = ARGV[3]
redis.call('PEXPIRE', KEYS[1], 86400000)
redis.call('PEXPIRE', KEYS[2], 86400000)
return reply
";

/// KEYS bucket. ARGV tokens of a minute, of the bucket, wanted, given back.
pub(super) const PORTION: &str = r"
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local full = tonumber(ARGV[2]) * 60000
local u, at = unpack(redis.call('HMGET', KEYS[1], 'u', 'a'))
u, at = tonumber(u or full), tonumber(at or now)
local earned = math.max(now - at, 0) * tonumber(ARGV[1])
u = math.min(u + earned + tonumber(ARGV[4]) * 60000, full)
local granted = math.min(math.floor(u / 60000), tonumber(ARGV[3]))
redis.call('HSET', KEYS[1], 'u', string.format('%.0f', u - granted * 60000), 'a', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], 86400000)
return granted
";

/// KEYS what is held. ARGV replica, how much, how much all may hold, milliseconds of a lease.
pub(super) const HOLD: &str = r"
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local before, others = 0, 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local colon = string.find(all[i + 1], ':', 1, true)
  local count = tonumber(string.sub(all[i + 1], colon + 1))
  if tonumber(string.sub(all[i + 1], 1, colon - 1)) <= now then
    redis.call('HDEL', KEYS[1], all[i])
  elseif all[i] == ARGV[1] then
    before = count
  else
    others = others + count
  end
end
local count = tonumber(ARGV[2])
if count > before and others + count > tonumber(ARGV[3]) then count = before end
if count == 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now + ARGV[4]) .. ':' .. count)
  redis.call('PEXPIRE', KEYS[1], 86400000)
end
return count
";

/// All of them, to be loaded into a server that does not have them.
pub(super) const ALL: [&str; 7] = [WRITE, TAKE, CHANGE, READ_LOG, RENEW, PORTION, HOLD];
