-- Reads everything as of one moment.
local known = redis.call('HMGET', publisher, 'sink', 'position', 'from', 'owner', 'fence', 'until')
return {
  known,
  redis.call('ZRANGE', ranges, 0, -1),
  redis.call('ZRANGE', links, 0, -1),
  text(now()),
  redis.call('XLEN', stream),
  redis.call('HGETALL', dlq),
}
