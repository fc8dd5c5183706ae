-- Deletes a thread, whatever its state, and leaves a tombstone for an hour.
-- KEYS: the thread, the bucket's ids, its deadlines, its tombstones.
-- ARGV: 1 offset (ms), 2 thread id, 3 its mark.
local key, ids, due, tombstones = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local offset, now = tonumber(ARGV[1]), clock(ARGV[1])
local facts = load_thread(key, ARGV[2])
facts.early = ''
drop_life(facts)
settle(facts, ids, due, offset, now)
call('ZREMRANGEBYSCORE', tombstones, '-inf', text(now))
call('ZADD', tombstones, text(now + TOMBSTONE_MS), ARGV[3])
call('PEXPIREAT', tombstones, text(now + TOMBSTONE_MS - offset))
return 0
