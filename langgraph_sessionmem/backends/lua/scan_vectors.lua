-- Vectors of namespaces, some megabytes of them.
-- args: lowest and highest: of the names; page: how many namespaces at most; cursor: where to go on
--   in the first.
-- Gives {where to go on, or '' at the end; the cursor there; {number, {n, vectors, ...}}, ...}.
local BYTES = 4000000
local members = call('ZRANGEBYLEX', KEYS[1], args.lowest, args.highest, 'LIMIT', 0, args.page)
local rows, size, cursor = { '', '0' }, 0, args.cursor
for _, member in ipairs(members) do
  local _, number = split_member(member)
  repeat
    local found = call('HSCAN', space_key(number) .. ':x', cursor, 'COUNT', 250)
    cursor = found[1]
    for i = 2, #found[2], 2 do size = size + #found[2][i] end
    if #found[2] > 0 then rows[#rows + 1] = { number, found[2] } end
    if size > BYTES then
      rows[1], rows[2] = (cursor == '0' and '(' or '[') .. member, cursor
      return rows
    end
  until cursor == '0'
end
if #members == args.page then rows[1] = '(' .. members[#members] end
return rows
