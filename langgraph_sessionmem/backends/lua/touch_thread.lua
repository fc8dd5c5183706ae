-- Counts a sign of life of a thread that has not expired, is not idle, and has an idle deadline.
-- args: id, mark, generation.
local now = clock()
local facts = open_thread(KEYS[1], args.id)
local counts = facts.idle_until ~= 0 and not is_idle(facts, now)
if counts and is_alive(facts, now) and facts.generation == args.generation then
  renew(facts, now)
  settle(facts, open_bucket(), now)
end
return 0
