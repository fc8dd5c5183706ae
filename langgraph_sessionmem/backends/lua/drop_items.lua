-- Deletes namespaces with all that is in them.
-- args: lowest and highest: of the names; page: how many at most.
-- Gives {how many namespaces, how many items that had not expired}.
local members = call('ZRANGEBYLEX', KEYS[1], args.lowest, args.highest, 'LIMIT', 0, args.page)
local now, dropped = clock_us(), 0
for _, member in ipairs(members) do
  local name, number = split_member(member)
  local space = open_space(number) or { name = name, number = number, key = space_key(number), items = 0 }
  dropped = dropped + space.items - call('ZCOUNT', space.key .. ':e', '-inf', text(now))
  drop_space(space)
end
return { #members, dropped }
