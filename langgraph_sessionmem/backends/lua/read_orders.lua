-- Where checkpoints stand; nothing if the thread has expired.
-- args: id, checkpoints.
-- Gives {index is whole, {place, value}, ...} or nothing.
local facts, now = load_thread(KEYS[1], args.id), clock()
if not is_alive(facts, now) then return false end
local found = { index_is_whole(facts) and 1 or 0 }
for _, id in ipairs(args.checkpoints) do
  for _, place in ipairs(places_of(facts, id, is_idle(facts, now))) do
    found[#found + 1] = { place, call('HGET', KEYS[1], 'c' .. place) }
  end
end
return found
