-- Forget refs that were taken and are claimed by now, then take refs from the heads of topics.
-- KEYS: gen. ARGV: prefix, now (us), how long a claimer may keep a ref (us), of how many topics refs are to be forgotten,
-- for each of these: topic, how many (1,000 at most), ref, ref, ...; then for each topic: topic, how many.
-- RUN is of this server, as generations begin that were built on it.
-- Answers for each topic: {0} cold, {-1} cold since the generation is of another run, or {1, next due in `soon` (us, 0:
-- none), bound, ref, ref, ...}.
local prefix, now, patience = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local generation = redis.call('GET', KEYS[1])
local cold, answers = {0}, {}
if generation and string.sub(generation, 1, #RUN) ~= RUN then generation, cold = false, {-1} end

local function move(from, to, last)
  while true do
    local refs = redis.call('ZRANGEBYSCORE', from, '-inf', last, 'LIMIT', 0, 1000)
    if #refs == 0 then return end
    local arguments = {}
    for i, ref in ipairs(refs) do arguments[2 * i - 1], arguments[2 * i] = 0, ref end
    redis.call('ZADD', to, unpack(arguments))
    redis.call('ZREM', from, unpack(refs))
  end
end

local function pop(topic, wanted)
  if not generation then return cold end
  local base = prefix .. generation
  local head = redis.call('HMGET', base .. ':t:' .. topic, 'bound', 'horizon')
  local bound, horizon = head[1], tonumber(head[2] or 0)
  if not bound or now >= horizon then return {0} end
  local ready, soon, taken = base .. ':r:' .. topic, base .. ':s:' .. topic, base .. ':k:' .. topic
  move(taken, ready, now - patience)
  move(soon, ready, now)
  local refs = redis.call('ZRANGEBYLEX', ready, '-', '(' .. bound, 'LIMIT', 0, wanted)
  if #refs > 0 then
    local arguments = {}
    for i, ref in ipairs(refs) do arguments[2 * i - 1], arguments[2 * i] = now, ref end
    redis.call('ZREM', ready, unpack(refs))
    redis.call('ZADD', taken, unpack(arguments))
  end
  if #refs < wanted and bound ~= 'g' then redis.call('PUBLISH', prefix .. 'hungry', topic) end
  local next_due = redis.call('ZRANGE', soon, 0, 0, 'WITHSCORES')[2] or '0'
  return {1, next_due, bound, unpack(refs)}
end

local first = 5
for _ = 1, tonumber(ARGV[4]) do
  local last = first + 1 + tonumber(ARGV[first + 1])
  if generation then redis.call('ZREM', prefix .. generation .. ':k:' .. ARGV[first], unpack(ARGV, first + 2, last)) end
  first = last + 1
end
for i = first, #ARGV, 2 do
  redis.call('ZADD', prefix .. 'demand', now, ARGV[i])
  answers[#answers + 1] = pop(ARGV[i], tonumber(ARGV[i + 1]))
end
return answers
