-- Keep what is reserved for longer than a reservation lives: it counts as reserved now.
-- KEYS: born. ARGV: prefix, then for each: name, the period that was answered, how many are reserved.
-- Answers the period to name later.
local period = math.floor(tonumber(redis.call('TIME')[1]) / 60)
for i = 2, #ARGV, 3 do
  local name, before, count = ARGV[1] .. ARGV[i], 'p' .. ARGV[i + 1], tonumber(ARGV[i + 2])
  local left = tonumber(redis.call('HGET', name, before) or 0)
  if left > 0 then redis.call('HINCRBY', name, before, -math.min(left, count)) end
  redis.call('HINCRBY', name, 'p' .. period, count)
  redis.call('EXPIRE', name, 600)
end
return period
