-- Announce a look ahead. KEYS: gen. ARGV: prefix, generation, new horizon (us), topic, topic, ...
-- Answers the horizon of each so far, 0 where it has none; nothing where the generation is over.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return false end
local horizons = {}
for i = 4, #ARGV do
  local head = ARGV[1] .. ARGV[2] .. ':t:' .. ARGV[i]
  redis.call('HSET', head, 'ahead', ARGV[3])
  horizons[#horizons + 1] = redis.call('HGET', head, 'horizon') or '0'
end
return horizons
