-- ARGV[5] is the height from which links are kept, ARGV[6] how many blocks follow. Each block is its
-- height, hash, parent, number of transactions, their data, and its own data.
local why = trouble()
if why then
  return refuse(why)
end
local keep, count = tonumber(ARGV[5]), tonumber(ARGV[6])
local blocks, at = {}, 7
for nth = 1, count do
  blocks[nth] = {
    height = tonumber(ARGV[at]),
    hash = ARGV[at + 1],
    parent = ARGV[at + 2],
    data = at + 4,
    entries = tonumber(ARGV[at + 3]),
  }
  at = at + 5 + blocks[nth].entries
end
local first, last = blocks[1].height, blocks[count].height

-- Check everything.
local before, before_ends = below(last)
if before and before_ends >= first then
  return refuse('block ' .. text(math.max(before, first)) .. ' is published already')
end
local parent = link(first - 1)
for _, block in ipairs(blocks) do
  if parent and parent ~= block.parent then
    return refuse('block ' .. text(block.height) .. ' is not a child of the published block')
  end
  parent = block.hash
end
local _, wanted = link(last + 1)
if wanted and wanted ~= parent then
  return refuse('block ' .. text(last) .. ' is not the parent of the published block')
end

-- Write.
for _, block in ipairs(blocks) do
  local height = text(block.height)
  local fields = {'v', '1', 'kind', 'transaction', 'height', height, 'hash', block.hash, 'data', ''}
  for nth = block.data, block.data + block.entries - 1 do
    fields[10] = ARGV[nth]
    redis.call('XADD', stream, '*', unpack(fields))
  end
  fields[4], fields[10] = 'block', ARGV[block.data + block.entries]
  redis.call('XADD', stream, '*', unpack(fields))
  if block.height >= keep then
    redis.call('ZADD', links, height, height .. ' ' .. block.hash .. ' ' .. block.parent)
  end
end
local from, to = first, last
if before and before_ends == first - 1 then
  remove(before, before_ends)
  from = before
end
local after, after_ends = below(last + 1)
if after == last + 1 then
  remove(after, after_ends)
  to = after_ends
end
add(from, to)
redis.call('ZREMRANGEBYSCORE', links, '-inf', '(' .. text(keep))
measure()
settle()
