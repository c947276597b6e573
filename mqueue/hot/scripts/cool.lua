-- Make topics cold. KEYS: gen. ARGV: prefix, topic, topic, ...
local generation = redis.call('GET', KEYS[1])
for i = 2, #ARGV do
  if generation then
    local base = ARGV[1] .. generation
    redis.call('UNLINK', base .. ':t:' .. ARGV[i], base .. ':r:' .. ARGV[i], base .. ':s:' .. ARGV[i],
               base .. ':k:' .. ARGV[i])
  end
end
