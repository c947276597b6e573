-- Forget refs that were taken: they are claimed, or somebody else has changed their rows.
-- KEYS: gen. ARGV: prefix, then for each: topic, ref.
local generation = redis.call('GET', KEYS[1])
if not generation then return end
for i = 2, #ARGV, 2 do
  redis.call('ZREM', ARGV[1] .. generation .. ':k:' .. ARGV[i], ARGV[i + 1])
end
