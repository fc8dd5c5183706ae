-- Stores a whole thread.
-- args: id, mark, new_generation, limits, own (the limits are), waiting, owner, saves, count, heads,
--   anchors, elements, runs; sizes: how many index members and hash fields follow, and
--   logs {id, how many}.
-- ARGV[2]: the index members, the names and values of fields, then the logs.
-- Gives {outcome, generation}.
local key, bucket, now = KEYS[1], open_bucket(), clock()
local facts = open_thread(key, args.id)
if is_alive(facts, now) then return { 'conflict', '0' } end
drop_life(facts, bucket)
facts.early, facts.fields = '', {} -- of no checkpoint of the copy
call('ZREM', bucket.due, 'e' .. args.id)
facts.generation, facts.created, facts.updated = args.new_generation, now, now
set_limits(facts, args.limits, args.own)
for _, name in ipairs({ 'saves', 'count', 'heads', 'anchors', 'elements' }) do
  facts[name] = args[name]
end
facts.waiting = args.waiting and 1 or 0
renew(facts, now)
if args.owner then set_field(facts, 'owner', args.owner) end

local at = 2
local function push(command, name, size)
  for from = at, at + size - 1, SLICE do
    call(command, name, unpack(ARGV, from, math.min(from + SLICE - 1, at + size - 1)))
  end
  at = at + size
end
for _ = 1, args.members do
  call('ZADD', key .. ':i', 0, ARGV[at])
  at = at + 1
end
push('HSET', key, args.fields * 2)
for _, log in ipairs(args.logs) do
  push('RPUSH', key .. ':' .. log[1], log[2])
  facts.logs = facts.logs .. log[1] .. ' '
end
for _, run in ipairs(args.runs) do
  local thread = escape(args.id)
  call('ZADD', bucket.runs, 0, 't' .. thread .. NUL .. run, 0, 'r' .. run .. NUL .. thread)
  facts.registers = true
end
settle(facts, bucket, now)
return { 'saved', text(facts.generation) }
