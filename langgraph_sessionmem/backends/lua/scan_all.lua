-- Of some threads of a bucket the checkpoints that come first, the latest order key first.
-- args: last: the highest of the thread ids, which are taken from there down (if they sort by time,
--   the first are the most likely); page: how many threads to look at; highest (the index member from
--   which on, '+' for all); floor (nil for none): order keys below it are of no use; ns with its NUL
--   and checkpoint (nil for any); limit: how many to give, ties with the last not counted;
--   after_order, after_thread, after_place (nil for none): of this order key only what comes after.
-- Gives {the last id that was looked at, or '' at the end; {thread id, generation, flags, index is
-- whole, {place, value}, ...} of each thread that has any}.
local bucket, now = open_bucket(), clock()
local ids = call('ZREVRANGEBYLEX', bucket.ids, args.last, '-', 'LIMIT', 0, args.page)
local found, floor = {}, args.floor
local STEP = 20

local function comes_after(thread, place)
  if thread ~= args.after_thread then return above(thread, args.after_thread) end
  return place ~= args.after_place and above(place, args.after_place)
end

-- Keeps the first ones, and what has the same order key as the last of them.
local function cut()
  if #found <= args.limit then return end
  table.sort(found, function(a, b) return a.order ~= b.order and above(a.order, b.order) end)
  floor = found[args.limit].order
  local size = args.limit
  while found[size + 1] and found[size + 1].order == floor do size = size + 1 end
  for i = #found, size + 1, -1 do found[i] = nil end
end

local function add(facts, member, order, place, idle)
  if args.ns and namespace_of(place) ~= args.ns then return end
  if order == args.after_order and not comes_after(facts.thread, place) then return end
  if idle and not is_latest(facts, member, place) then return end
  found[#found + 1] = { order = order, facts = facts, place = place }
end

-- Members of a thread's index from `highest` on that may be of use.
local function members_of(key, highest)
  local lowest = floor and '[' .. floor or '-'
  return call('ZREVRANGEBYLEX', key .. ':i', highest, lowest, 'LIMIT', 0, STEP)
end

local function scan(facts, members)
  local idle, size = is_idle(facts, now), #found
  while true do
    for _, member in ipairs(members) do
      local order, _, _, place = read_member(member)
      if #found - size >= args.limit and found[#found].order ~= order then return end
      add(facts, member, order, place, idle)
    end
    if #members < STEP then return end
    members = members_of(facts.key, '(' .. members[#members])
  end
end

local function scan_id(facts)
  for _, place in ipairs(places_of(facts, args.checkpoint, is_idle(facts, now))) do
    local row = read_checkpoint(place, call('HGET', facts.key, 'c' .. place))
    local member = new_member(row.order_id, row.n, row.ns, row.id)
    local order = read_member(member)
    if args.highest == '+' or above(string.sub(args.highest, 2), member) then
      add(facts, member, order, place, false)
    end
  end
end

for _, id in ipairs(ids) do
  local key = thread_key(bucket, id)
  local members = not args.checkpoint and members_of(key, args.highest)
  if not members or #members > 0 then -- of most threads nothing is, so nothing else is read
    local facts = load_thread(key, id)
    if is_alive(facts, now) then
      if members then scan(facts, members) else scan_id(facts) end
      if #found > 2 * args.limit + 50 then cut() end
    end
  end
end
cut()
local pages, of_thread = { #ids == args.page and ids[#ids] or '' }, {}
for _, row in ipairs(found) do
  local facts = row.facts
  local page = of_thread[facts.thread]
  if not page then
    local is_whole = index_is_whole(facts) and 1 or 0
    page = { facts.thread, text(facts.generation), flags(facts, now), is_whole }
    of_thread[facts.thread] = page
    pages[#pages + 1] = page
  end
  page[#page + 1] = { row.place, call('HGET', facts.key, 'c' .. row.place) }
end
return pages
