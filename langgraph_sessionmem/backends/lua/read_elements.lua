-- Runs of logs; nothing if the thread has expired or is another by now.
-- args: id, generation, runs {log, first, last}, each a number but the log.
-- Gives of each run {first, element, ...}: a sealed place is empty, a block stands at its last; where
-- a block goes on behind the run, its element follows the run's, and the places between are left out.
local facts = load_thread(KEYS[1], args.id)
local found = {}
if not is_alive(facts, clock()) or facts.generation ~= args.generation then return found end
for i, run in ipairs(args.runs) do
  local log, last = KEYS[1] .. ':' .. run[1], run[3]
  local lone = run[2] == 0 and call('HGET', KEYS[1], lone_field(run[1]))
  local elements, more = lone and { lone } or call('LRANGE', log, run[2], last), 0
  while elements[#elements] == SEALED do
    last = last + 1
    elements[#elements] = call('LINDEX', log, last) or PRUNED
    more = more + 1
  end
  found[i] = { more, elements }
end
return found
