-- ARGV[4..6] are the sink, the position and the first height of interest.
local why = trouble()
if why then
  return refuse(why)
end
redis.call('HSET', publisher, 'sink', ARGV[4], 'position', ARGV[5], 'from', ARGV[6])
measure()
