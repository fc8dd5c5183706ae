-- Every element of a thread; nothing if it has expired or is another by now.
-- args: id, generation.
-- Gives {log, {position, size, position, size, ...}} of each log.
local facts = load_thread(KEYS[1], args.id)
local found = {}
if not is_alive(facts, clock()) or facts.generation ~= args.generation then return found end
for _, field in ipairs(call('HKEYS', KEYS[1])) do
  local log = string.match(field, '^e(%d+)%z$')
  if log then found[#found + 1] = { log, { 0, call('HSTRLEN', KEYS[1], field) } } end
end
for log in string.gmatch(facts.logs, '%d+') do
  local places, at = {}, 0
  while true do
    local elements = call('LRANGE', KEYS[1] .. ':' .. log, at, at + SLICE - 1)
    for i, element in ipairs(elements) do
      if element ~= SEALED and element ~= PRUNED then
        places[#places + 1] = at + i - 1
        places[#places + 1] = #element
      end
    end
    at = at + #elements
    if #elements < SLICE then break end
  end
  found[#found + 1] = { log, places }
end
return found
