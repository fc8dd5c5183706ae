-- Counts a sign of life of a thread that has not expired.
-- KEYS: the thread, the bucket's ids, its deadlines.
-- ARGV: 1 offset (ms), 2 thread id, 3 generation.
local now = clock(ARGV[1])
local facts = load_thread(KEYS[1], ARGV[2])
if is_alive(facts, now) and facts.generation == ARGV[3] then
  renew(facts, now)
  settle(facts, KEYS[2], KEYS[3], tonumber(ARGV[1]), now)
end
return 0
