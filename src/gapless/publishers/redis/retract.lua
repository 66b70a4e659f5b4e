-- ARGV[5] is the position to record, or empty; the rest are pairs of a height and a hash, which is
-- empty if nobody knows it.
local why = trouble()
if why then
  return refuse(why)
end
for at = 6, #ARGV, 2 do
  local height, hash = tonumber(ARGV[at]), ARGV[at + 1]
  if not is_published(height) then
    return refuse('block ' .. text(height) .. ' is not published')
  end
  local known = link(height)
  if known and hash ~= '' and known ~= hash then
    return refuse('block ' .. text(height) .. ' was published with another hash')
  end
end

for at = 6, #ARGV, 2 do
  local height, hash = tonumber(ARGV[at]), ARGV[at + 1]
  if hash == '' then
    hash = link(height) or ''
  end
  redis.call(
    'XADD', stream, '*', 'v', '1', 'kind', 'retract', 'height', text(height), 'hash', hash, 'data', '{}'
  )
  redis.call('ZREMRANGEBYSCORE', links, text(height), text(height))
  local first, last = below(height)
  remove(first, last)
  if first < height then
    add(first, height - 1)
  end
  if last > height then
    add(height + 1, last)
  end
end
if ARGV[5] ~= '' then
  redis.call('HSET', publisher, 'position', ARGV[5])
end
measure()
settle()
