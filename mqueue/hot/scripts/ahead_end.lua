-- Add what a look ahead at one topic has read, and set its horizon; if nobody else has announced another meanwhile.
-- KEYS: gen. ARGV: prefix, generation, announced horizon (us), topic, reached horizon (us), then for each: due (us), ref.
-- Answers 1 if it counted.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
local base, topic = ARGV[1] .. ARGV[2], ARGV[4]
local head = base .. ':t:' .. topic
if redis.call('HGET', head, 'ahead') ~= ARGV[3] then return 0 end
for i = 6, #ARGV, 2 do redis.call('ZADD', base .. ':s:' .. topic, ARGV[i], ARGV[i + 1]) end
redis.call('HSET', head, 'horizon', ARGV[5])
redis.call('HDEL', head, 'ahead')
return 1
