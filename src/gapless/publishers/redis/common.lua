-- What all scripts share. Lua does not roll back: each script checks everything before it writes.
--
-- KEYS  stream, publisher, ranges, links, last_synced_block, head, dlq
-- ARGV  the owner, its fence, the revision that it knows, its lease in milliseconds; then what the
--       script needs
--
-- publisher  a hash: stream, owner, fence, until, revision, sink, position, from
-- ranges     a sorted set of `first-last` by first: the published heights
-- links      a sorted set of `height hash parent` by height: the newest of them
local stream, publisher, ranges, links, synced, head, dlq = unpack(KEYS)
local owner, fence, revision, lease = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local function text(number)
  return string.format('%.0f', number)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function refuse(why)
  return redis.error_reply('REFUSED ' .. why)
end

-- Why this caller may not write, or nil.
local function trouble()
  local known = redis.call('HMGET', publisher, 'owner', 'fence', 'revision')
  if known[1] ~= owner or known[2] ~= fence then
    return 'another publisher leads this stream'
  end
  if known[3] ~= revision then
    return 'the stream was replaced by an older copy'
  end
  if redis.call('EXISTS', stream) == 0 and redis.call('EXISTS', ranges) == 1 then
    return 'the stream was deleted'
  end
  for at, kind in ipairs({'stream', 'hash', 'zset', 'zset', 'string', 'string', 'hash'}) do
    local found = redis.call('TYPE', KEYS[at]).ok
    if found ~= 'none' and found ~= kind then
      return 'the key `' .. KEYS[at] .. '` is a ' .. found .. ', not a ' .. kind
    end
  end
end

local function renew()
  redis.call('HSET', publisher, 'until', text(now() + lease))
end

-- Ends a step that has changed the record. Each has a revision of its own, so that a publisher
-- notices when a copy takes over that has not received the last steps.
local function settle()
  redis.call('HINCRBY', publisher, 'revision', 1)
  renew()
end

local function ends(member)
  local first, last = string.match(member, '^(%d+)-(%d+)$')
  return tonumber(first), tonumber(last)
end

-- The published range that begins at this height or below.
local function below(height)
  local found = redis.call('ZREVRANGEBYSCORE', ranges, text(height), '-inf', 'LIMIT', 0, 1)
  if found[1] then
    return ends(found[1])
  end
end

local function is_published(height)
  local first, last = below(height)
  return first ~= nil and last >= height
end

local function add(first, last)
  redis.call('ZADD', ranges, text(first), text(first) .. '-' .. text(last))
end

local function remove(first, last)
  redis.call('ZREM', ranges, text(first) .. '-' .. text(last))
end

-- The hash and the parent of a block, if they are recorded.
local function link(height)
  local found = redis.call('ZRANGEBYSCORE', links, text(height), text(height))
  if found[1] then
    return string.match(found[1], '^%d+ (%S+) (%S+)$')
  end
end

-- Updates the two heights that others read.
local function measure()
  local from = redis.call('HGET', publisher, 'from')
  local first, last = below(tonumber(from or '0'))
  if first and last >= tonumber(from or '0') then
    redis.call('SET', synced, text(last))
  else
    redis.call('DEL', synced)
  end
  local top = redis.call('ZREVRANGE', ranges, 0, 0)
  if top[1] then
    first, last = ends(top[1])
    redis.call('SET', head, text(last))
  else
    redis.call('DEL', head)
  end
end
