-- Gives a thread limits of its own.
-- KEYS: the thread, the bucket's ids, its deadlines.
-- ARGV: 1 offset (ms), 2 thread id, 3 limits (idle, max age, interrupted in ms or '-', refresh, 1).
-- Gives 1, or 0 if there is no such thread.
local now = clock(ARGV[1])
local facts = load_thread(KEYS[1], ARGV[2])
if not is_alive(facts, now) then return 0 end
facts.limits = ARGV[3]
renew(facts, now)
settle(facts, KEYS[2], KEYS[3], tonumber(ARGV[1]), now)
return 1
