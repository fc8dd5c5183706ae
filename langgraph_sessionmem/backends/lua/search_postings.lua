-- Where tokens occur in namespaces.
-- args: lowest and highest: of the names; page: how many to look at; tokens.
-- Gives {the last that was looked at, or '' at the end;
--   {number, {n of an expired item, ...}, which token (from 0), block, postings, ...}, ...}.
local now, spaces, rows = clock_us(), open_spaces()
for _, space in ipairs(spaces) do
  local row = { space.number, faded_in(space, now, -1) }
  for block = 0, last_block(space) do
    for i, postings in ipairs(get_fields(space.key, 't' .. block .. ' ', args.tokens)) do
      if postings then
        row[#row + 1], row[#row + 2], row[#row + 3] = i - 1, block, postings
      end
    end
  end
  if #row > 2 then rows[#rows + 1] = row end
end
return rows
