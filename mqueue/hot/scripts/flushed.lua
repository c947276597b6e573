-- Take entries out of the buffer that are committed, and note how far.
-- KEYS: buffer, pushed, flushed. ARGV: how many writers, for each writer and number, then the ids of entries.
local writers = tonumber(ARGV[1])
for i = 2, 2 * writers, 2 do
  local mark = tonumber(redis.call('HGET', KEYS[3], ARGV[i]) or '0')
  if redis.call('HEXISTS', KEYS[2], ARGV[i]) == 1 and tonumber(ARGV[i + 1]) > mark then
    redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
  end
end
for i = 2 * writers + 2, #ARGV do redis.call('XDEL', KEYS[1], ARGV[i]) end
