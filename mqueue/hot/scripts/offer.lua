-- Tell of rows that wait: those that belong into a set are added to it, and who waits for their topics is woken.
-- KEYS: gen. ARGV: prefix, the least demand that counts (us), then for each: topic, due (us; 0: it is due; -1: it is due
-- and was told of before, so it is not taken out of the hands of a claimer), ref.
-- Answers 1.
local prefix, wanted_since = ARGV[1], tonumber(ARGV[2])
local generation = redis.call('GET', KEYS[1])
local heads, wakes = {}, {}

for i = 3, #ARGV, 3 do
  local topic, due, ref = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local base = generation and prefix .. generation
  if not heads[topic] then
    heads[topic] = base and redis.call('HMGET', base .. ':t:' .. topic, 'bound', 'horizon', 'ahead', 'fill') or {}
  end
  local bound, horizon, ahead, fill = unpack(heads[topic])
  if due > 0 then
    if due < math.max(tonumber(horizon or 0), tonumber(ahead or 0)) then
      redis.call('ZADD', base .. ':s:' .. topic, due, ref)
    end
  elseif bound and (fill or ref < bound) and (due == 0 or not redis.call('ZSCORE', base .. ':k:' .. topic, ref)) then
    redis.call('ZADD', base .. ':r:' .. topic, 0, ref)
  end
  due = math.max(due, 0)
  if not wakes[topic] or due < wakes[topic] then wakes[topic] = due end
end

local message = {}
for topic, due in pairs(wakes) do
  local asked = redis.call('ZSCORE', prefix .. 'demand', topic)
  if asked and tonumber(asked) >= wanted_since then
    message[#message + 1] = topic .. ':' .. string.format('%.0f', due)
  end
end
if #message > 0 then redis.call('PUBLISH', prefix .. 'wake', table.concat(message, ' ')) end
return 1
