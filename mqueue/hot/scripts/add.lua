-- Add refs of rows that were found waiting; those behind the bound are left out. A ref that a claimer has is not added.
-- KEYS: gen. ARGV: prefix, generation, topic, ref, ref, ... Answers 1 if all of them are before the bound.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
local base, topic = ARGV[1] .. ARGV[2], ARGV[3]
local bound = redis.call('HGET', base .. ':t:' .. topic, 'bound')
local all_before = 1
for i = 4, #ARGV do
  if not bound or ARGV[i] >= bound then
    all_before = 0
  elseif not redis.call('ZSCORE', base .. ':k:' .. topic, ARGV[i]) then
    redis.call('ZADD', base .. ':r:' .. topic, 0, ARGV[i])
  end
end
return all_before
