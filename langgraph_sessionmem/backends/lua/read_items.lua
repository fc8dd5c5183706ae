-- The items of some keys.
-- args: groups {name, {key, ...}}.
-- Gives {now, {number, name, heads, value, ...}, ...}.
local rows = { text(clock_us()) }
for _, group in ipairs(args.groups) do
  local number = number_of(group[1])
  if number then
    local key = space_key(number)
    rows[#rows + 1] = give_items({ number, group[1] }, key, numbers_of(key, group[2]), true)
  end
end
return rows
