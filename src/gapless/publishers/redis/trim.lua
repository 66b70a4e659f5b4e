-- ARGV[5] is how many entries are kept at least, ARGV[6] how many to delete at most.
local why = trouble()
if why then
  return refuse(why)
end
if redis.call('EXISTS', stream) == 0 then
  return 0
end
local surplus = math.min(redis.call('XLEN', stream) - tonumber(ARGV[5]), tonumber(ARGV[6]))
local groups = redis.call('XINFO', 'GROUPS', stream)
if surplus <= 0 or #groups == 0 then
  return 0
end

local function order(id)
  local time, serial = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(time), tonumber(serial)
end

local function earlier(one, other)
  local time, serial = order(one)
  local other_time, other_serial = order(other)
  return time < other_time or (time == other_time and serial < other_serial)
end

local found = redis.call('XRANGE', stream, '-', '+', 'COUNT', surplus + 1)
local keep = found[#found][1]
for _, facts in ipairs(groups) do
  local group = {}
  for at = 1, #facts, 2 do
    group[facts[at]] = facts[at + 1]
  end
  -- Everything after the last delivered entry is still to be read. Before it, what is pending is.
  local unread = redis.call('XRANGE', stream, '(' .. group['last-delivered-id'], '+', 'COUNT', 1)
  if unread[1] and earlier(unread[1][1], keep) then
    keep = unread[1][1]
  end
  local pending = redis.call('XPENDING', stream, group['name'])
  if pending[1] > 0 and earlier(pending[2], keep) then
    keep = pending[2]
  end
end
return redis.call('XTRIM', stream, 'MINID', keep)
