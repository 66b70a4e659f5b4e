-- Ends the lease of the caller, if it leads.
local known = redis.call('HMGET', publisher, 'owner', 'fence')
if known[1] == owner and known[2] == fence then
  redis.call('HSET', publisher, 'until', '0')
end
