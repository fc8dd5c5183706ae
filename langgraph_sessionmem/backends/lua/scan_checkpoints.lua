-- Checkpoints of one thread, or of each thread of a bucket, the latest first; ties are not cut.
-- KEYS: the bucket's ids.
-- ARGV: 1 offset (ms), 2 what thread keys begin with, 3 thread ('-' for all, or '+' and its id),
--   4 the highest index member ('+', or '(' and bytes), 5 namespace and 6 checkpoint id ('-' for
--   any, or '+' and the escaped text), 7 how many a thread at least, if there are so many.
-- Gives {thread id, generation, refresh on read, index is whole, was cut, {place, value}, ...} of
-- each thread that has not expired.
local now, limit = clock(ARGV[1]), tonumber(ARGV[7])
local ns, id = ARGV[5], ARGV[6]

local function fits(place)
  return ns == '-' or string.sub(place, 1, terminator(place, 1) - 1) == string.sub(ns, 2)
end

local function scan(facts)
  local page = { facts.thread, facts.generation, refreshes(facts), index_is_whole(facts) and 1 or 0, 0 }
  local function add(place) page[#page + 1] = { place, call('HGET', facts.key, 'c' .. place) } end
  if id ~= '-' then
    for _, place in ipairs(places_of(facts, string.sub(id, 2))) do
      if fits(place) then add(place) end
    end
    return page
  end
  local highest, taken, last = ARGV[4], 0, nil
  local step = ns == '-' and math.min(limit + 1, 200) or 200
  while true do
    local members = call('ZREVRANGEBYLEX', facts.key .. ':i', highest, '-', 'LIMIT', 0, step)
    if #members == 0 then return page end
    for _, member in ipairs(members) do
      local order, _, _, place = read_member(member)
      if taken >= limit and order ~= last then
        page[5] = 1
        return page
      end
      if fits(place) then
        add(place)
        taken, last = taken + 1, order
      end
    end
    highest = '(' .. members[#members]
  end
end

local threads, pages = { string.sub(ARGV[3], 2) }, {}
if ARGV[3] == '-' then threads = call('ZRANGEBYLEX', KEYS[1], '-', '+') end
for _, thread in ipairs(threads) do
  local facts = load_thread(thread_key(ARGV[2], thread), thread)
  if is_alive(facts, now) then pages[#pages + 1] = scan(facts) end
end
return pages
