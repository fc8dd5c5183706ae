-- The turns around some turns.
-- args: groups {number of the namespace, {n, ...}, {n of one that is known, ...}}, distance.
-- Gives {now, {number, name, heads}, ...}.
local function around(space, numbers)
  local positions, asked = {}, {}
  for _, packed in ipairs(get_fields(space.key, 'h', numbers)) do
    local position = packed and read_head(packed).position
    if position then
      for other = position - args.distance, position + args.distance do
        if not asked[other] then positions[#positions + 1] = text(other) end
        asked[other] = true
      end
    end
  end
  return positions
end

local rows = { text(clock_us()) }
for _, group in ipairs(args.groups) do
  local space = open_space(group[1])
  if space then
    local known, found = {}, {}
    for _, n in ipairs(group[3]) do known[n] = true end
    for _, turns in ipairs(get_fields(space.key, 'p', around(space, group[2]))) do
      for n in string.gmatch(turns or '', '%d+') do
        if not known[tonumber(n)] then found[#found + 1] = n end
      end
    end
    rows[#rows + 1] = give_items({ group[1], space.name }, space.key, found)
  end
end
return rows
