-- Before many rows are offered: which of their topics have use for them. Where none has, its consumers are woken at once.
-- KEYS: gen. ARGV: prefix, the least demand that counts (us), then for each topic: topic, the least ref of those that are
-- due (empty: none), the least due time of the others (us; 0: none). Answers 1 or 0 for each.
local prefix, wanted_since = ARGV[1], tonumber(ARGV[2])
local generation = redis.call('GET', KEYS[1])
local answers, message = {}, {}

local function is_of_use(topic, ref, due)
  if not generation then return false end
  local head = redis.call('HMGET', prefix .. generation .. ':t:' .. topic, 'bound', 'horizon', 'ahead', 'fill')
  local bound, fill = head[1], head[4]
  if ref ~= '' and bound and (fill or ref < bound) then return true end
  return due > 0 and due < math.max(tonumber(head[2] or 0), tonumber(head[3] or 0))
end

for i = 3, #ARGV, 3 do
  local topic, ref, due = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local use = is_of_use(topic, ref, due)
  answers[#answers + 1] = use and 1 or 0
  local asked = not use and redis.call('ZSCORE', prefix .. 'demand', topic)
  if asked and tonumber(asked) >= wanted_since then
    message[#message + 1] = topic .. ':' .. (ref ~= '' and '0' or string.format('%.0f', due))
  end
end
if #message > 0 then redis.call('PUBLISH', prefix .. 'wake', table.concat(message, ' ')) end
return answers
