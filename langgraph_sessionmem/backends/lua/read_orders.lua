-- Where checkpoints stand; nothing if the thread has expired.
-- KEYS: the thread.
-- ARGV: 1 offset (ms), 2 thread id; then checkpoint ids, escaped.
-- Gives {index is whole, {place, value}, ...} or nothing.
local facts = load_thread(KEYS[1], ARGV[2])
if not is_alive(facts, clock(ARGV[1])) then return false end
local found = { index_is_whole(facts) and 1 or 0 }
for i = 3, #ARGV do
  for _, place in ipairs(places_of(facts, ARGV[i])) do
    found[#found + 1] = { place, call('HGET', KEYS[1], 'c' .. place) }
  end
end
return found
