-- Add what a fill has read, and raise the bound; if nobody else has begun one, or moved the bound, meanwhile.
-- KEYS: gen. ARGV: prefix, generation, topic, token, new bound, ref, ref, ... Answers 1 if it counted.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
local base, topic = ARGV[1] .. ARGV[2], ARGV[3]
local head = base .. ':t:' .. topic
if redis.call('HGET', head, 'fill') ~= ARGV[4] then return 0 end
for i = 6, #ARGV do redis.call('ZADD', base .. ':r:' .. topic, 0, ARGV[i]) end
redis.call('HSET', head, 'bound', ARGV[5])
redis.call('HDEL', head, 'fill')
return 1
