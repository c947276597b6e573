-- Reserve room below a limit. There is at most what was counted, what was added since that count began, and what is
-- reserved and neither added nor given up yet.
-- KEYS: born. ARGV: prefix, then for each: name, how many, the least that will do, limit, a count (empty: none), the mark
-- that was answered before that count began. A count may be too high, never too low; after ten
-- seconds it counts no more.
-- Answers for each: how many are reserved (-1: too few, and a new count may help), the mark, the period to name later.
local prefix, answers = ARGV[1], {}
local now = tonumber(redis.call('TIME')[1])
local period = math.floor(now / 60)  -- what a killed process has reserved is forgotten after one or two

for i = 2, #ARGV, 6 do
  local name, wanted, least = prefix .. ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local limit, count = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local kept = redis.call('HMGET', name, 'count', 'mark', 'added', 'at', 'p' .. period, 'p' .. period - 1)
  local added = tonumber(kept[3] or 0)
  local mark = math.min(tonumber(kept[2] or 0), added)
  if count and tonumber(ARGV[i + 5]) >= mark then
    mark = math.min(tonumber(ARGV[i + 5]), added)
    redis.call('HSET', name, 'count', count, 'mark', mark, 'at', now)
  else
    count = now - tonumber(kept[4] or 0) < 10 and tonumber(kept[1]) or nil
  end
  local granted = -1
  if count then
    local room = limit - count - (added - mark) - tonumber(kept[5] or 0) - tonumber(kept[6] or 0)
    if room >= least then
      granted = math.min(wanted, room)
      redis.call('HINCRBY', name, 'p' .. period, granted)
    end
  end
  redis.call('HDEL', name, 'p' .. period - 2, 'p' .. period - 3)
  redis.call('EXPIRE', name, 600)
  answers[#answers + 1] = {granted, added, period}
end
return answers
