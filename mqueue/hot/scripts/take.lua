-- Take tokens from buckets, for each request all that it asks for or nothing, by Redis' clock. A bucket is the time at
-- which it is full again. One that is not there is full; after a loss of data it was emptied then, if six seconds fill it.
-- KEYS: born, processes. ARGV: prefix, who asks, 1 if he has met buckets before, then for each request: how many asks,
-- and for each of these: name, us a token, us until an empty one is full, tokens wanted (below zero: given back), the
-- least that will do (-1: they are taken whatever there is), tokens to take ahead.
-- Answers how many processes have asked within a minute, then for each request {0, tokens, tokens, ...}, or
-- {us to wait, which ask}.
local prefix, time = ARGV[1], redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local born = redis.call('GET', KEYS[1])
if not born then
  born = ARGV[3] == '1' and string.format('%.0f', now) or '0'
  redis.call('SET', KEYS[1], born)
end
redis.call('ZADD', KEYS[2], now, ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 60000000)
local answers = {redis.call('ZCARD', KEYS[2])}

local function look(at)
  local name, each, full = prefix .. ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local wanted, least, ahead = tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local full_at = tonumber(redis.call('GET', name) or born + math.min(full, 6000000))
  full_at = math.min(math.max(full_at, now), now + full)
  local room = math.floor((now + full - full_at + 0.5) / each)
  local wait = 0
  if wanted > 0 and room < least then wait = math.max(1, math.ceil(full_at + least * each - now - full)) end
  local tokens = (wanted < 0 or least < 0) and wanted or math.min(wanted + ahead, room)
  return {name, full_at + tokens * each, tokens, wait}
end

local i = 4
while i <= #ARGV do
  local looks, answer = {}, {0}
  for k = 1, tonumber(ARGV[i]) do
    looks[k] = look(i + 6 * k - 5)
    if looks[k][4] > answer[1] then answer = {looks[k][4], k - 1} end
  end
  if answer[1] == 0 then
    for k, found in ipairs(looks) do
      if found[2] > now then
        redis.call('SET', found[1], string.format('%.3f', found[2]), 'PX', math.ceil((found[2] - now) / 1000))
      else
        redis.call('DEL', found[1])
      end
      answer[k + 1] = found[3]
    end
  end
  answers[#answers + 1] = answer
  i = i + 1 + 6 * ARGV[i]
end
return answers
