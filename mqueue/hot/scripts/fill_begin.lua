-- Announce a fill. KEYS: gen. ARGV: prefix, generation, topic, token.
-- Answers the bound from which to read, or nothing where the topic has no horizon yet, or is complete, or the generation is over.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return false end
local head = ARGV[1] .. ARGV[2] .. ':t:' .. ARGV[3]
if redis.call('HEXISTS', head, 'horizon') == 0 then return false end
redis.call('HSETNX', head, 'bound', '')
if redis.call('HGET', head, 'bound') == 'g' then return false end
redis.call('HSET', head, 'fill', ARGV[4])
return redis.call('HGET', head, 'bound')
