-- A checkpoint with its writes; nothing if the thread has expired.
-- args: id, ns with its NUL, checkpoint (nil for the latest).
-- Gives {generation, flags, {place, value, chunk, ...}} or nothing.
local key = KEYS[1]
local facts, now = load_thread(key, args.id), clock()
if not is_alive(facts, now) then return false end
local place = args.checkpoint and args.ns .. args.checkpoint
if not place or is_idle(facts, now) then
  local latest = call('HGET', key, 'h' .. args.ns)
  if not latest then return false end
  if place and place ~= place_of(latest) then return false end
  place = place_of(latest)
end
local value = call('HGET', key, 'c' .. place)
if not value then return false end
return { text(facts.generation), flags(facts, now), write_chunks(facts, place, { place, value }) }
