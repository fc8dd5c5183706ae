-- One thread; nothing if it has no checkpoint or has expired.
-- args: id.
local facts, now = load_thread(KEYS[1], args.id), clock()
return is_alive(facts, now) and thread_row(facts, now)
