-- Deletes a bucket's expired threads, early writes that stayed alone, and old tombstones.
-- args: limit: how many threads at most.
-- Gives how many threads were deleted.
local bucket, now = open_bucket(), clock()
local dropped = 0

local function sweep(entry)
  local id = string.sub(entry, 2)
  local facts = open_thread(thread_key(bucket, id), id)
  if facts.known and has_expired(facts, now) then
    drop_life(facts, bucket)
    dropped = dropped + 1
  elseif not facts.known then
    drop_runs(bucket, id)
  end
  local waiting = {}
  for _, early in ipairs(read_entries(facts.early)) do
    if early[1] > now then
      waiting[#waiting + 1] = early
    else
      drop_writes(facts, early[2])
    end
  end
  facts.early = pack_entries(waiting)
  call('ZREM', bucket.due, entry)
  if string.sub(entry, 1, 1) == 'e' then
    facts.early_due = 0
  else
    facts.first, facts.native = 0, 0 -- so that a thread which lives longer gets new ones
  end
  settle(facts, bucket, now)
end

while dropped < args.limit do
  local entry = call('ZRANGEBYSCORE', bucket.due, '-inf', text(now), 'LIMIT', 0, 1)[1]
  if not entry then break end
  sweep(entry)
end
call('ZREMRANGEBYSCORE', bucket.tombstones, '-inf', text(now))
call('ZREMRANGEBYSCORE', bucket.marks, '-inf', text(now))
return dropped
