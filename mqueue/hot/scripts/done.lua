-- Forget refs that were taken: they are claimed, or somebody else has changed their rows.
-- KEYS: gen. ARGV: prefix, then for each topic: topic, how many (1,000 at most), ref, ref, ...
local generation = redis.call('GET', KEYS[1])
if not generation then return end
local i = 2
while i < #ARGV do
  local last = i + 1 + tonumber(ARGV[i + 1])
  redis.call('ZREM', ARGV[1] .. generation .. ':k:' .. ARGV[i], unpack(ARGV, i + 2, last))
  i = last + 1
end
