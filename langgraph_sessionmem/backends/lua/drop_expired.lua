-- Deletes a bucket's expired threads, early writes that stayed alone, and old tombstones.
-- KEYS: the bucket's ids, its deadlines, its tombstones.
-- ARGV: 1 offset (ms), 2 what thread keys begin with, 3 how many threads at most.
-- Gives how many threads were deleted.
local ids, due, tombstones = KEYS[1], KEYS[2], KEYS[3]
local offset, now = tonumber(ARGV[1]), clock(ARGV[1])
local limit, dropped = tonumber(ARGV[3]), 0

local function sweep(entry)
  local id = string.sub(entry, 2)
  local facts = load_thread(thread_key(ARGV[2], id), id)
  if facts.known and has_expired(facts, now) then
    drop_life(facts)
    dropped = dropped + 1
  end
  local waiting = {}
  for _, early in ipairs(early_writes(facts)) do
    if early[1] > now then
      waiting[#waiting + 1] = early
    else
      for i in ipairs(write_chunks(facts, early[2])) do
        call('HDEL', facts.key, write_field(early[2], i))
      end
    end
  end
  set_early(facts, waiting)
  call('ZREM', due, entry)
  facts.native = '' -- so that a thread which lives longer than the entry says gets a new one
  settle(facts, ids, due, offset, now)
end

while dropped < limit do
  local entry = call('ZRANGEBYSCORE', due, '-inf', text(now), 'LIMIT', 0, 1)[1]
  if not entry then break end
  sweep(entry)
end
call('ZREMRANGEBYSCORE', tombstones, '-inf', text(now))
return dropped
