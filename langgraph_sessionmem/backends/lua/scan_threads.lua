-- Of some threads of a bucket those that have not expired, the first of them in an order.
-- args: lowest and highest: of the ids; page: how many threads to look at; order; limit: how many to
--   give; value and after: give only those whose value is greater, or equal with an id above `after`.
-- Gives {the last id that was looked at, or '' at the end; value, id, row, value, id, row, ...}. A
-- value is what the order goes by, ascending: 0 for the id itself, milliseconds, bytes.
local bucket, now = open_bucket(), clock()
local ids = call('ZRANGEBYLEX', bucket.ids, args.lowest, args.highest, 'LIMIT', 0, args.page)
local found = {}

local VALUES = {
  thread_id = function() return 0 end,
  updated_at = function(facts) return -facts.updated end,
  expires_at = function(facts)
    local ends = expires_at(facts, now)
    return ends == 0 and 2 ^ 53 or ends
  end,
  size = function(facts) return -size_of(facts) end,
}

local value_of = VALUES[args.order]
for _, id in ipairs(ids) do
  local facts = load_thread(thread_key(bucket, id), id)
  if is_alive(facts, now) then
    local value = value_of(facts)
    if not args.value or value > args.value or (value == args.value and above(id, args.after)) then
      found[#found + 1] = { value, id, facts }
    end
  end
end
if args.order ~= 'thread_id' then
  table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] ~= b[2] and above(b[2], a[2])
  end)
end
local rows = { #ids == args.page and ids[#ids] or '' }
for i = 1, math.min(#found, args.limit) do
  rows[#rows + 1] = text(found[i][1])
  rows[#rows + 1] = found[i][2]
  rows[#rows + 1] = thread_row(found[i][3], now)
end
if #found > args.limit and args.order == 'thread_id' then rows[1] = found[args.limit][2] end
return rows
