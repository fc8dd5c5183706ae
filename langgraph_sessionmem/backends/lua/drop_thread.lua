-- Deletes a thread, whatever its state, and leaves a tombstone for an hour.
-- args: id, mark, saves (nil: in any case).
-- Gives 1, or 0 if it was saved to since.
local bucket, now = open_bucket(), clock()
local facts = open_thread(KEYS[1], args.id)
if args.saves and facts.known and facts.saves ~= args.saves then return 0 end
facts.early = ''
drop_life(facts, bucket)
settle(facts, bucket, now)
call('ZREM', bucket.marks, TOLD .. args.mark, AGED .. args.mark)
call('ZREMRANGEBYSCORE', bucket.tombstones, '-inf', text(now))
call('ZADD', bucket.tombstones, text(now + TOMBSTONE_MS), args.mark)
expire({ bucket.tombstones }, now + TOMBSTONE_MS)
return 1
