-- The statistics of namespaces.
-- args: lowest and highest: of the names; page: how many to look at; tokens.
-- Gives {the last that was looked at, or '' at the end; items; tokens of their texts; the sum of the
--   stamps; for each token how many items have it}; nothing if so many items have expired that they
--   must be deleted first.
local MANY = 200
local now, spaces, rows = clock_us(), open_spaces()
local items, length, stamp, faded, counts, index = 0, 0, 0, 0, {}, {}
for i, token in ipairs(args.tokens) do counts[i], index[token] = 0, i end

local function leave_out(space, n)
  local head = read_head(call('HGET', space.key, 'h' .. n))
  if head.length > 0 then items, length = items - 1, length - head.length end
  local tokens = tokens_of(call('HGET', space.key, 'b' .. n))
  for i = 1, #tokens, 2 do
    local known = index[tokens[i]]
    if known then counts[known] = counts[known] - 1 end
  end
end

for _, space in ipairs(spaces) do
  items, length, stamp = items + space.texts, length + space.length, stamp + space.stamp
  for block = 0, last_block(space) do
    for i, postings in ipairs(get_fields(space.key, 't' .. block .. ' ', args.tokens)) do
      if postings then counts[i] = counts[i] + #postings / POSTING end
    end
  end
  for _, n in ipairs(faded_in(space, now, MANY)) do
    leave_out(space, n)
    faded = faded + 1
  end
  if faded >= MANY then return false end
end
rows[2], rows[3], rows[4] = text(items), text(length), text(stamp)
for i, count in ipairs(counts) do rows[4 + i] = count end
return rows
