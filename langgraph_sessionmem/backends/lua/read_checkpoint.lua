-- A checkpoint with its writes; nothing if the thread has expired.
-- KEYS: the thread.
-- ARGV: 1 offset (ms), 2 thread id, 3 namespace, 4 '-' for the latest, or '+' and the id; escaped.
-- Gives {generation, refresh on read, {place, value, chunk, ...}} or nothing.
local facts = load_thread(KEYS[1], ARGV[2])
if not is_alive(facts, clock(ARGV[1])) then return false end
local place = ARGV[3] .. NUL .. string.sub(ARGV[4], 2)
if ARGV[4] == '-' then
  local latest = call('HGET', KEYS[1], 'h' .. ARGV[3] .. NUL)
  if not latest then return false end
  local _, _, _, latest_place = read_member(latest)
  place = latest_place
end
local value = call('HGET', KEYS[1], 'c' .. place)
if not value then return false end
return { facts.generation, refreshes(facts), write_chunks(facts, place, { place, value }) }
