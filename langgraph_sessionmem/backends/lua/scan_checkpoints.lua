-- Checkpoints of a thread, the latest first; ties are not cut.
-- args: id; highest (the index member from which on, '+' for all), ns with its NUL and checkpoint (nil
--   for any), limit: how many at least, if there are so many; anchors: give these too, and what an
--   idle thread hides.
-- Gives {generation, flags, index is whole, was cut, {place, value}, ...}, or nothing if the thread
-- has expired.
local facts, now = load_thread(KEYS[1], args.id), clock()
if not is_alive(facts, now) then return false end
local ns, id, idle = args.ns, args.checkpoint, is_idle(facts, now) and not args.anchors
local page = { text(facts.generation), flags(facts, now), index_is_whole(facts) and 1 or 0, 0 }

local function fits(place) return not ns or namespace_of(place) == ns end

local function add(place) page[#page + 1] = { place, call('HGET', KEYS[1], 'c' .. place) } end

local function add_anchors()
  if not args.anchors then return end
  for _, entry in ipairs(anchor_places(facts)) do
    local place = entry[2]
    if fits(place) and (not id or place == namespace_of(place) .. id) then add(place) end
  end
end

if id then
  for _, place in ipairs(places_of(facts, id, idle)) do
    if fits(place) then add(place) end
  end
  add_anchors()
  return page
end
local highest, taken, last = args.highest, 0, nil
local step = ns and 200 or math.min(args.limit + 1, 200)
while true do
  local members = call('ZREVRANGEBYLEX', KEYS[1] .. ':i', highest, '-', 'LIMIT', 0, step)
  if #members == 0 then break end
  for _, member in ipairs(members) do
    local order, _, _, place = read_member(member)
    if taken >= args.limit and order ~= last then
      page[4] = 1
      return page
    end
    if fits(place) and (not idle or is_latest(facts, member, place)) then
      add(place)
      taken, last = taken + 1, order
    end
  end
  highest = '(' .. members[#members]
end
add_anchors()
return page
