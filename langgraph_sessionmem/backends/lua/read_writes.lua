-- The writes of checkpoints; nothing if the thread has expired or is another by now.
-- KEYS: the thread.
-- ARGV: 1 offset (ms), 2 thread id, 3 generation; then the places.
-- Gives {place, chunk, ...} of each checkpoint.
local facts = load_thread(KEYS[1], ARGV[2])
local found = {}
if is_alive(facts, clock(ARGV[1])) and facts.generation == ARGV[3] then
  for i = 4, #ARGV do
    if call('HEXISTS', KEYS[1], 'c' .. ARGV[i]) == 1 then
      found[#found + 1] = write_chunks(facts, ARGV[i], { ARGV[i] })
    end
  end
end
return found
