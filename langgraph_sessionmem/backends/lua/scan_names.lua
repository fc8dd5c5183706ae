-- The namespaces that have an item.
-- args: lowest and highest: of the names; page: how many to look at.
-- Gives {the last that was looked at, or '' at the end; name, ...}.
local now, spaces, rows = clock_us(), open_spaces()
for _, space in ipairs(spaces) do
  if space.items > call('ZCOUNT', space.key .. ':e', '-inf', text(now)) then
    rows[#rows + 1] = space.name
  end
end
return rows
