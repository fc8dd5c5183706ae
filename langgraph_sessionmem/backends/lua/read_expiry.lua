-- Whether a thread has expired whose limits told to remember that.
-- args: id, mark.
-- Gives 0 or 1.
local facts, now = load_thread(KEYS[1], args.id), clock()
if facts.known then return facts.tells == 1 and has_expired(facts, now) and 1 or 0 end
return has_mark(open_bucket(), TOLD, TOLD_MS, now) and 1 or 0
