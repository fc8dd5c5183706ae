-- The items of some numbers.
-- args: groups {number of the namespace, {n, ...}}; values: give them too.
-- Gives {now, {number, name, heads, value, ...}, ...}.
local rows = { text(clock_us()) }
for _, group in ipairs(args.groups) do
  local space = open_space(group[1])
  if space then
    rows[#rows + 1] = give_items({ group[1], space.name }, space.key, group[2], args.values)
  end
end
return rows
