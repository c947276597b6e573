-- Put a writer's next records into the buffer, in their order and without a gap: else a later one would hide an earlier.
-- KEYS: buffer, pushed, flushed. ARGV: writer, number of the first, of the last, 1 if nothing before the first is to come
-- any more (a base: Redis was lost, and all before is committed), the records as they lie in the log.
-- Answers up to which number the buffer has had the writer's records: the last, unless something is missing before.
local writer, first, last = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local is_base = ARGV[4] == '1'
local have = tonumber(redis.call('HGET', KEYS[2], writer) or '0')
if have >= last then return have end
if not is_base and have + 1 ~= first then return have end
redis.call('XADD', KEYS[1], '*', 'w', writer, 'f', ARGV[2], 'l', ARGV[3], 'b', ARGV[4], 'd', ARGV[5])
redis.call('HSET', KEYS[2], writer, ARGV[3])
if is_base then redis.call('HSET', KEYS[3], writer, first - 1) end
return last
