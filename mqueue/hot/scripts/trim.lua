-- Cut the tail of a topic's ready refs that have grown too many.
-- KEYS: gen. ARGV: prefix, generation, topic, how many to keep.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return end
local base, topic = ARGV[1] .. ARGV[2], ARGV[3]
local ready, head = base .. ':r:' .. topic, base .. ':t:' .. topic
local first_cut = redis.call('ZRANGE', ready, ARGV[4], ARGV[4])[1]
if not first_cut then return end
local place = string.sub(first_cut, 1, 30)
if place < redis.call('HGET', head, 'bound') then redis.call('HSET', head, 'bound', place) end
redis.call('ZREMRANGEBYRANK', ready, ARGV[4], -1)
redis.call('HDEL', head, 'fill')
