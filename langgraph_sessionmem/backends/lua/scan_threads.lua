-- Threads of a bucket that have not expired, by id.
-- KEYS: the bucket's ids.
-- ARGV: 1 offset (ms), 2 what thread keys begin with, 3 the lowest id ('-', or '(' and bytes),
--   4 how many at most.
-- Gives {thread id, generation, created (ms), updated (ms), expires (ms or ''), checkpoints} each.
local now, lowest, limit = clock(ARGV[1]), ARGV[3], tonumber(ARGV[4])
local rows = {}
while #rows < limit do
  local ids = call('ZRANGEBYLEX', KEYS[1], lowest, '+', 'LIMIT', 0, 200)
  if #ids == 0 then break end
  for _, id in ipairs(ids) do
    local facts = load_thread(thread_key(ARGV[2], id), id)
    if is_alive(facts, now) and #rows < limit then
      local ends = deadline(facts)
      rows[#rows + 1] = {
        id, facts.generation, facts.created, facts.updated, ends and text(ends) or '', facts.count,
      }
    end
  end
  lowest = '(' .. ids[#ids]
end
return rows
