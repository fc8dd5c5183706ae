-- A page of the items of namespaces: the latest first, then by name and key.
-- args: lowest and highest: of the names; page: how many namespaces to look at; terms; limit;
--   values: give them too; floor: leave out what is older; after {updated_at, name, key}.
-- Gives {the last namespace that was looked at, or '' at the end; number, name, head and value of
--   each item, ...}.
local now, spaces, rows = clock_us(), open_spaces()
local after, floor = args.after, args.floor and text(args.floor) or '-inf'
local highest = after and text(after[1]) or '+inf'
local found = {}

local function precedes(a, b)
  if a[1] ~= b[1] then return a[1] > b[1] end
  if a[2] ~= b[2] then return above(b[2], a[2]) end
  return a[3] ~= b[3] and above(b[3], a[3])
end

local function trim()
  table.sort(found, precedes)
  for i = #found, args.limit + 1, -1 do found[i] = nil end
  if #found == args.limit then floor = text(found[#found][1]) end
end

-- Takes what belongs to the page, until there is enough of it; says whether there is.
local function take(space, numbers, taken)
  for _, packed in ipairs(get_fields(space.key, 'h', numbers)) do
    local head = read_head(packed)
    if taken.count >= args.limit and head.updated < taken.updated then return true end
    local item = { head.updated, space.name, head.key, space, head.n, packed }
    if not has_faded(head, now) and (not after or precedes(after, item)) then
      found[#found + 1] = item
      taken.count, taken.updated = taken.count + 1, head.updated
    end
  end
  return false
end

-- The items that have all terms: which they are, and their numbers.
local function with_terms(space)
  local having, all = {}, {}
  for block = 0, last_block(space) do
    for i, postings in ipairs(get_fields(space.key, 't' .. block .. ' ', args.terms)) do
      for j = 1, #(postings or ''), POSTING do
        local high, low = string.byte(postings, j, j + 1)
        local n = block * 8192 + high * 256 + low
        if i == 1 or having[n] == i - 1 then
          having[n] = i
          if i == #args.terms then all[#all + 1] = n end
        end
      end
    end
  end
  return having, all
end

local function walk(space, having)
  local from, size, taken, is_done = 0, math.min(args.limit + 1, 500), { count = 0 }, false
  repeat
    local page = call('ZREVRANGEBYSCORE', space.key .. ':o', highest, floor, 'LIMIT', from, size)
    local numbers = {}
    for _, n in ipairs(page) do
      if not having or having[tonumber(n)] == #args.terms then numbers[#numbers + 1] = n end
    end
    is_done, from = take(space, numbers, taken), from + size
  until is_done or #page < size
end

for _, space in ipairs(spaces) do
  local having, all
  if #args.terms > 0 then having, all = with_terms(space) end
  if all and #all <= SLICE then
    take(space, all, { count = -#all })
  else
    walk(space, having)
  end
  if #found > 2 * args.limit then trim() end
end
trim()
for _, item in ipairs(found) do
  local space = item[4]
  rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = space.number, space.name, item[6]
  rows[#rows + 1] = args.values and value_of(call('HGET', space.key, 'b' .. item[5])) or ''
end
return rows
