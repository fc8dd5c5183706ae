-- The writes of checkpoints; nothing if the thread has expired or is another by now.
-- args: id, generation, places.
-- Gives {place, chunk, ...} of each checkpoint.
local facts = load_thread(KEYS[1], args.id)
local found = {}
if is_alive(facts, clock()) and facts.generation == args.generation then
  for _, place in ipairs(args.places) do
    if call('HEXISTS', KEYS[1], 'c' .. place) == 1 then
      found[#found + 1] = write_chunks(facts, place, { place })
    end
  end
end
return found
