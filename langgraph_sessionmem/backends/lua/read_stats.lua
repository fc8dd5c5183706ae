-- What some threads of a bucket hold, by id; with the first of them, what the bucket has beside.
-- args: after (nil: from the first on), limit: how many threads at most.
-- Gives {the last id or '' at the end, threads, expired, checkpoints, writes, elements, tombstones,
-- bytes, idle}.
local bucket, now = open_bucket(), clock()
local lowest = args.after and '(' .. args.after or '-'
local ids = call('ZRANGEBYLEX', bucket.ids, lowest, '+', 'LIMIT', 0, args.limit)
local threads, expired, checkpoints, writes, elements = 0, 0, 0, 0, 0
local tombstones, bytes, idle = 0, 0, 0

local function count_writes(key)
  for _, field in ipairs(call('HKEYS', key)) do
    if string.sub(field, 1, 1) == 'w' and string.find(field, NUL, 1, true) then
      for _ in each_write(call('HGET', key, field)) do writes = writes + 1 end
    end
  end
end

for _, id in ipairs(ids) do
  local facts = load_thread(thread_key(bucket, id), id)
  if facts.known then
    bytes = bytes + size_of(facts)
    if has_expired(facts, now) then
      expired = expired + 1
    else
      threads, elements = threads + 1, elements + facts.elements
      count_writes(facts.key)
      local hides = is_idle(facts, now)
      checkpoints = checkpoints + (hides and facts.heads or facts.count)
      idle = idle + (hides and 1 or 0)
    end
  end
end
if not args.after then
  for _, key in ipairs({ 'ids', 'due', 'cuts', 'runs', 'marks', 'tombstones' }) do
    bytes = bytes + (call('MEMORY', 'USAGE', bucket[key], 'SAMPLES', 0) or 0)
  end
  tombstones = call('ZCOUNT', bucket.tombstones, text(now), '+inf')
end
local last = #ids == args.limit and ids[#ids] or ''
return { last, threads, expired, checkpoints, writes, elements, tombstones, bytes, idle }
