-- Stores a checkpoint with its elements, whole or not at all; twice is as once.
-- KEYS: the thread, the bucket's ids, its deadlines, its tombstones, then a log each.
-- ARGV: 1 offset (ms), 2 thread id, 3 its mark, 4 generation ('' for unknown), 5 a new generation,
--   6 begins (0 or 1), 7 limits (idle, max age, interrupted in ms or '-', refresh, own), 8 pending,
--   9 namespace, 10 checkpoint id, 11 parent ('-', or '+' and its id), all escaped, 12 the body;
--   then for each log: its first position, the number of elements, the elements.
-- Gives {outcome, generation}.
local key, ids, due, tombstones = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local offset, now = tonumber(ARGV[1]), clock(ARGV[1])
local mark, generation, limits = ARGV[3], ARGV[4], ARGV[7]
local ns, id, parent, body = ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local place = ns .. NUL .. id
local facts = load_thread(key, ARGV[2])
local makes_way = ARGV[6] == '1' and facts.known and has_expired(facts, now)
local known = facts.known and not makes_way

if known and is_past(facts.ends_at, now) then return { 'expired', '0' } end
if generation ~= '' and (makes_way or facts.generation ~= generation) then
  if known or has_tombstone(tombstones, mark, now) then return { 'deleted', '0' } end
  return { 'gone', '0' }
end
local parent_place = ns .. NUL .. string.sub(parent, 2)
local has_parent = parent ~= '-'
local parent_stored = known and has_parent and call('HEXISTS', key, 'c' .. parent_place) == 1
if has_parent and not parent_stored and has_tombstone(tombstones, mark, now) then
  return { 'deleted', '0' }
end

local logs, at = {}, 13
for i = 5, #KEYS do
  local start, size = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local held = makes_way and 0 or call('LLEN', KEYS[i])
  if start > held then return { 'log taken', '0' } end
  local first = at + 2
  local there = math.min(held - start, size)
  if there > 0 then
    local stored = call('LRANGE', KEYS[i], start, start + there - 1)
    for j = 1, there do
      if stored[j] ~= ARGV[first + j - 1] then return { 'log taken', '0' } end
    end
  end
  logs[#logs + 1] = { key = KEYS[i], from = first + there, to = first + size - 1, new = held == 0 }
  at = first + size
end

if makes_way then drop_life(facts) end
if not known then
  if facts.generation == '' then facts.generation = ARGV[5] end
  facts.created, facts.count, facts.limits = text(now), '0', limits
  call('UNLINK', key .. ':i') -- of a life whose hash was evicted
  -- Entries whose threads the server expired by itself go a few at a time.
  for _, entry in ipairs(call('ZRANGEBYSCORE', due, '-inf', text(now), 'LIMIT', 0, 4)) do
    local other = string.sub(entry, 2)
    local base = string.sub(key, 1, -HASH_SIZE - 1)
    if call('EXISTS', thread_key(base, other)) == 0 then
      call('ZREM', due, entry)
      call('ZREM', ids, other)
    end
  end
elseif string.sub(limits, -1) == '1' or string.sub(facts.limits, -1) == '0' then
  facts.limits = limits
end
facts.waiting, facts.updated = ARGV[8], text(now)
renew(facts, now)
for _, log in ipairs(logs) do
  for from = log.from, log.to, SLICE do
    call('RPUSH', log.key, unpack(ARGV, from, math.min(from + SLICE - 1, log.to)))
  end
  if log.new then
    facts.logs = facts.logs .. string.match(log.key, ':(%d+)$') .. ' '
    facts.new_logs[#facts.new_logs + 1] = log.key
  end
end

if has_parent and not parent_stored and parent_place ~= place then
  set_field(facts, 'n' .. parent_place, '')
end
local stored = call('HGET', key, 'c' .. place)
local order_id, n = id, 0
if stored then
  local _, stop, number, size = string.find(stored, '^(%d+) (%d+) ')
  n = number
  if size ~= '0' then order_id = string.sub(stored, stop + 1, stop + size) end
else
  local latest = call('HGET', key, 'h' .. ns .. NUL)
  local named = call('HDEL', key, 'n' .. place) == 1
  if latest then
    local _, latest_id, latest_n = read_member(latest)
    if parent_stored and not named and not above(id, latest_id) then
      order_id, n = latest_id, latest_n + 1
    end
  end
  local member = new_member(order_id, n, ns, id)
  call('ZADD', key .. ':i', 0, member)
  if not latest or above(member, latest) then set_field(facts, 'h' .. ns .. NUL, member) end
  if order_id ~= id then
    local moved = call('HGET', key, 'm' .. id .. NUL) or ''
    set_field(facts, 'm' .. id .. NUL, moved .. #ns .. ' ' .. ns)
  end
  facts.count = text(facts.count + 1)
  local others = {}
  for _, entry in ipairs(early_writes(facts)) do
    if entry[2] ~= place then others[#others + 1] = entry end
  end
  set_early(facts, others)
end
local order = order_id == id and '' or order_id
set_field(facts, 'c' .. place, n .. ' ' .. #order .. ' ' .. order .. body)
settle(facts, ids, due, offset, now)
return { 'saved', facts.generation }
