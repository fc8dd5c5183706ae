-- The value of an item and its former ones, the latest first, and since when it had them.
-- args: name, key.
-- Gives {since, value, ...}; nothing if the item isn't there.
local number = number_of(args.name)
local key = number and space_key(number)
local n = key and call('HGET', key, 'k' .. args.key)
if not n then return {} end
local head = read_head(call('HGET', key, 'h' .. n))
if has_faded(head, clock_us()) then return {} end
local numbers = {}
for i = head.versions - 1, 0, -1 do numbers[#numbers + 1] = head.oldest + i end
local rows = { text(head.since), (value_of(call('HGET', key, 'b' .. n))) }
for _, version in ipairs(get_fields(key, 'w' .. n .. ' ', numbers)) do
  local _, stop, since = string.find(version, '^(%d+) ')
  rows[#rows + 1] = since
  rows[#rows + 1] = string.sub(version, stop + 1)
end
return rows
