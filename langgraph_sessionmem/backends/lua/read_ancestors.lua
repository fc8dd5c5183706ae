-- A checkpoint and those it came from; nothing if there is none, or the thread has expired.
-- args: id, ns with its NUL, checkpoint (nil for the latest), limit: how many ancestors at most.
-- Gives {generation, flags, {place, value}, ...} or nothing.
local key = KEYS[1]
local facts, now = load_thread(key, args.id), clock()
if not is_alive(facts, now) then return false end
local place = args.checkpoint and args.ns .. args.checkpoint
if not place then
  local latest = call('HGET', key, 'h' .. args.ns)
  if not latest then return false end
  place = place_of(latest)
end
local found = { text(facts.generation), flags(facts, now) }
local seen = {}
while place and not seen[place] and #found < 3 + args.limit do
  local value = call('HGET', key, 'c' .. place)
  if not value then break end
  found[#found + 1] = { place, value }
  seen[place] = true
  local parent = parent_of(value, read_checkpoint(place, value).at)
  place = parent and args.ns .. escape(parent)
end
if #found == 2 then return false end
return found
