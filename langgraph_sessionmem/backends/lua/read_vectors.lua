-- The vectors of the items of some keys.
-- args: groups {name, {key, ...}}.
-- Gives {number of the namespace, {n, vectors, ...}} each.
local rows, now = {}, clock_us()
for _, group in ipairs(args.groups) do
  local number = number_of(group[1])
  if number then
    local key, found = space_key(number), {}
    local numbers = numbers_of(key, group[2])
    local heads = get_fields(key, 'h', numbers)
    for i, vectors in ipairs(get_fields(key .. ':x', '', numbers)) do
      if vectors and not has_faded(read_head(heads[i]), now) then
        found[#found + 1] = numbers[i]
        found[#found + 1] = vectors
      end
    end
    rows[#rows + 1] = { number, found }
  end
end
return rows
