-- How often tokens occur in items.
-- args: numbers {number of the namespace, n}, tokens: one for each.
-- Gives the occurrences.
local counts = {}
for i, place in ipairs(args.numbers) do
  local body = call('HGET', space_key(place[1]), 'b' .. place[2])
  local tokens = body and tokens_of(body) or {}
  counts[i] = 0
  for j = 1, #tokens, 2 do
    if tokens[j] == args.tokens[i] then counts[i] = tokens[j + 1] end
  end
end
return counts
