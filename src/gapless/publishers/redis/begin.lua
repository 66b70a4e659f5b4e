-- ARGV[5..7] are the sink, the position and the first height of interest.
local why = trouble()
if why then
  return refuse(why)
end
redis.call('HSET', publisher, 'sink', ARGV[5], 'position', ARGV[6], 'from', ARGV[7])
measure()
settle()
