-- ARGV[5] is 1 to take over. Returns the fence and the revision; nothing if another one leads.
--
-- The fence that the caller names is its own on this connection, or 0 on a new one, which always
-- draws a new fence: a step that is still on its way from an old connection is refused then. A
-- connection draws only one: if another one has led since, the caller knows an old record.
local other = redis.call('HGET', publisher, 'stream')
if other and other ~= stream then
  return refuse('the key `' .. publisher .. '` belongs to the stream `' .. other .. '`')
end
if fence ~= '0' then
  local why = trouble()
  if why then
    return refuse(why)
  end
  renew()
  return redis.call('HMGET', publisher, 'fence', 'revision')
end
local known = redis.call('HMGET', publisher, 'owner', 'until')
if known[1] and known[1] ~= owner and tonumber(known[2]) > now() and ARGV[5] ~= '1' then
  return {}
end
if redis.call('EXISTS', stream) == 0 and redis.call('EXISTS', ranges) == 1 then
  -- Somebody deleted the stream, so nothing is published any more.
  redis.call('DEL', ranges, links, synced, head)
  redis.call('HDEL', publisher, 'sink', 'position', 'from')
end
redis.call('HINCRBY', publisher, 'fence', 1)
redis.call('HINCRBY', publisher, 'revision', 1)
redis.call('HSET', publisher, 'stream', stream, 'owner', owner)
renew()
return redis.call('HMGET', publisher, 'fence', 'revision')
