-- ARGV[5..] are pairs of blocks and reasons: all that cannot be published now.
local why = trouble()
if why then
  return refuse(why)
end
redis.call('DEL', dlq)
for at = 5, #ARGV, 2 do
  redis.call('HSET', dlq, ARGV[at], ARGV[at + 1])
end
