-- Add refs of rows that were found waiting; those behind the bound are left out. A ref that a claimer has is not added.
-- KEYS: gen. ARGV: prefix, generation, topic, ref, ref, ... Answers how many were missing.
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
local base, topic = ARGV[1] .. ARGV[2], ARGV[3]
local bound = redis.call('HGET', base .. ':t:' .. topic, 'bound')
local missing = 0
for i = 4, #ARGV do
  if bound and ARGV[i] < bound and not redis.call('ZSCORE', base .. ':k:' .. topic, ARGV[i]) then
    missing = missing + redis.call('ZADD', base .. ':r:' .. topic, 0, ARGV[i])
  end
end
return missing
