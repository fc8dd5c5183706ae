-- The threads of a bucket that have or had checkpoints of runs, and have not expired.
-- args: runs.
-- Gives their ids.
local bucket, now = open_bucket(), clock()
local found, seen = {}, {}
for _, run in ipairs(args.runs) do
  local start = 'r' .. run .. NUL
  for _, member in ipairs(call('ZRANGEBYLEX', bucket.runs, '[' .. start, '(' .. start .. '\255')) do
    local id = string.gsub(string.sub(member, #start + 1), '%z\255', NUL)
    if not seen[id] and is_alive(load_thread(thread_key(bucket, id), id), now) then
      found[#found + 1] = id
    end
    seen[id] = true
  end
end
return found
