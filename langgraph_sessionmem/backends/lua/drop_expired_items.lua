-- Deletes expired items of a bucket.
-- args: limit, stamp.
-- Gives how many.
local now, dropped = clock_us(), 0
while dropped < args.limit do
  local number = call('ZRANGEBYSCORE', expiring_key(), '-inf', text(now), 'LIMIT', 0, 1)[1]
  if not number then break end
  local space = open_space(number)
  if space then
    change_space(space)
    local faded = faded_in(space, now, args.limit - dropped)
    for _, n in ipairs(faded) do drop_item(space, read_head(call('HGET', space.key, 'h' .. n))) end
    dropped = dropped + #faded
    settle_space(space, #faded > 0 and args.stamp or space.stamp)
  else
    call('ZREM', expiring_key(), number) -- it was evicted
  end
end
return dropped
