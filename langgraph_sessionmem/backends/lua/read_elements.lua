-- Runs of logs; nothing if the thread has expired or is another by now.
-- KEYS: the thread, then a log for each run.
-- ARGV: 1 offset (ms), 2 thread id, 3 generation; then first and last position of each run.
-- Gives the elements of each run.
local facts = load_thread(KEYS[1], ARGV[2])
local runs = {}
if is_alive(facts, clock(ARGV[1])) and facts.generation == ARGV[3] then
  for i = 2, #KEYS do
    runs[i - 1] = call('LRANGE', KEYS[i], ARGV[2 * i], ARGV[2 * i + 1])
  end
end
return runs
