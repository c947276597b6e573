-- What became of reservations: so many were added, and the rest was given up.
-- KEYS: born. ARGV: prefix, then for each: name, the period that was answered, how many were reserved, how many were added.
for i = 2, #ARGV, 4 do
  local name, pending = ARGV[1] .. ARGV[i], 'p' .. ARGV[i + 1]
  local left = tonumber(redis.call('HGET', name, pending) or 0)
  if left > 0 then redis.call('HINCRBY', name, pending, -math.min(left, tonumber(ARGV[i + 2]))) end
  if ARGV[i + 3] ~= '0' then redis.call('HINCRBY', name, 'added', ARGV[i + 3]) end
end
return 1
