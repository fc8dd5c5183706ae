-- A bucket's expired threads, or its idle ones that keep their latest; the longest first.
-- args: keep_latest, limit.
-- Gives {since when (ms), row} each.
local bucket, now = open_bucket(), clock()
local queue = args.keep_latest and bucket.cuts or bucket.due
local rows, from = {}, 0
while #rows < args.limit do
  local entries = call('ZRANGEBYSCORE', queue, '-inf', text(now), 'LIMIT', from, 200)
  for _, entry in ipairs(entries) do
    local id = args.keep_latest and entry or string.sub(entry, 2)
    if #rows < args.limit and (args.keep_latest or string.sub(entry, 1, 1) == 't') then
      local facts = load_thread(thread_key(bucket, id), id)
      local fits = has_expired(facts, now)
      if args.keep_latest then fits = not fits and is_idle(facts, now) end
      if facts.known and fits then
        local since = args.keep_latest and facts.idle_until or deadline(facts)
        rows[#rows + 1] = { text(since), thread_row(facts, now) }
      end
    end
  end
  if #entries < 200 then break end
  from = from + #entries
end
return rows
