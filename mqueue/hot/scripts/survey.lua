-- How the topics with demand stand. KEYS: gen. ARGV: prefix, generation, the least demand that counts (us), how many.
-- Answers nothing where the generation is over; else for each topic: topic, 1 if it has a bound, 1 if that is
-- everything, horizon (us), refs before the bound, refs in all.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return false end
local base = ARGV[1] .. ARGV[2]
local found = {}
local topics = redis.call('ZREVRANGEBYSCORE', ARGV[1] .. 'demand', '+inf', ARGV[3], 'LIMIT', 0, ARGV[4])
for _, topic in ipairs(topics) do
  local head = redis.call('HMGET', base .. ':t:' .. topic, 'bound', 'horizon')
  local bound, ready = head[1], base .. ':r:' .. topic
  local before = bound and redis.call('ZLEXCOUNT', ready, '-', '(' .. bound) or 0
  found[#found + 1] = {topic, bound and 1 or 0, bound == 'g' and 1 or 0, head[2] or '0', before,
                       redis.call('ZCARD', ready)}
end
return found
