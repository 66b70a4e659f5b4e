-- ARGV[5] is 1 to take over. Returns the fence and the revision; nothing if another one leads.
--
-- The fence that the caller names is its own on this connection, or 0 on a new one, which always
-- draws a new fence: a step that is still on its way from an old connection is refused then.
local other = redis.call('HGET', publisher, 'stream')
if other and other ~= stream then
  return refuse('the key `' .. publisher .. '` belongs to the stream `' .. other .. '`')
end
if redis.call('EXISTS', stream) == 0 and redis.call('EXISTS', ranges) == 1 then
  -- Somebody deleted the stream, so nothing is published any more.
  redis.call('DEL', ranges, links, synced, head)
  redis.call('HDEL', publisher, 'sink', 'position', 'from')
end
local known = redis.call('HMGET', publisher, 'owner', 'fence', 'until')
local mine = known[1] == owner
if not mine and known[1] and tonumber(known[3]) > now() and ARGV[5] ~= '1' then
  return {}
end
if mine and known[2] == fence then
  local why = trouble()
  if why then
    return refuse(why)
  end
else
  redis.call('HINCRBY', publisher, 'fence', 1)
  redis.call('HINCRBY', publisher, 'revision', 1)
  redis.call('HSET', publisher, 'stream', stream, 'owner', owner)
end
renew()
return redis.call('HMGET', publisher, 'fence', 'revision')
