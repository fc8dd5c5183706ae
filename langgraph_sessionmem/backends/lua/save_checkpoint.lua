-- Stores a checkpoint with its elements, whole or not at all; twice is as once.
-- args: id, mark, generation (nil for unknown), new_generation, begins, limits, own (the limits are),
--   pending, owner, run, ns with its NUL, checkpoint, parent (nil for a root), builds_on_parent,
--   may_fork; logs {id, first position, how many elements, sealed blocks {first, last, body}}.
-- ARGV[2]: the body, then the elements of the logs.
-- Gives {outcome, generation}.
local key, bucket, now = KEYS[1], open_bucket(), clock()
local ns, id, parent, body = args.ns, args.checkpoint, args.parent, ARGV[2]
local place, latest_field = ns .. id, 'h' .. ns
local parent_place = parent and ns .. parent
local facts = open_thread(key, args.id)
local expired = facts.known and has_expired(facts, now)
local too_old = expired and is_aged(facts, now)
local makes_way = expired and (args.begins or not too_old)
local known = facts.known and not makes_way
local stored, latest, is_named, has_children = false, false, false, false
if known then
  local fields = { 'c' .. place, latest_field, 'n' .. place, 'n' .. (parent_place or place) }
  stored, latest, is_named, has_children = unpack(call('HMGET', key, unpack(fields)))
end

-- Not as an anchor, which holds less than a checkpoint that goes on from it may need.
local parent_stored = known and parent and call('HEXISTS', key, 'c' .. parent_place) == 1
if parent_stored and facts.anchors > 0 then
  parent_stored = string.sub(call('HGET', key, 'c' .. parent_place), 1, 1) ~= '-'
end

-- Why the save is refused, or nil.
local function refusal()
  if known and too_old then return 'expired' end
  if not facts.known and not args.begins and has_mark(bucket, AGED, AGED_MS, now) then
    return 'expired'
  end
  if args.generation and (makes_way or facts.generation ~= args.generation) then
    return (known or has_tombstone(bucket, now)) and 'deleted' or 'gone'
  end
  if parent and not parent_stored then
    if not args.generation and has_tombstone(bucket, now) then return 'deleted' end
    if args.builds_on_parent then return 'parent gone' end
  end
  if stored and string.sub(stored, 1, 1) == '-' then return 'parent gone' end -- an anchor
  if known and is_idle(facts, now) then return 'cut first' end
  if not args.may_fork and not stored and (latest and place_of(latest) or nil) ~= parent_place then
    return 'conflict'
  end
end

-- Whether a block of this save is in its place already.
local function has_block(log, block) return call('LINDEX', log, block[2]) == block[3] end

-- What is to be pushed to a log, or nil if a place is taken by other bytes.
local function check_log(log, first_arg)
  local name, start, size = key .. ':' .. log[1], log[2], log[3]
  local lone, held = false, 0
  if known then
    lone = call('HGET', key, lone_field(log[1]))
    held = lone and 1 or call('LLEN', name)
  end
  if start > held then return nil end
  local there = math.min(held - start, size)
  if there > 0 then
    local stored = lone and { lone } or call('LRANGE', name, start, start + there - 1)
    for i = 1, there do
      if stored[i] ~= ARGV[first_arg + i - 1] then
        local covered = false
        for _, block in ipairs(log[4]) do
          local at = start + i - 1
          covered = covered or block[1] <= at and at <= block[2] and has_block(name, block)
        end
        if not covered then return nil end
      end
    end
  end
  return {
    id = log[1], key = name, from = first_arg + there, to = first_arg + size - 1, lone = lone,
    is_list = held > 0 and not lone, blocks = log[4],
  }
end

-- Appends to a log. One of a single element is a field: most of them never get another.
local function append(log)
  local size = log.to - log.from + 1
  if size < 1 then return end
  facts.elements = facts.elements + size
  if size == 1 and not log.lone and not log.is_list then
    set_field(facts, lone_field(log.id), ARGV[log.from])
    return
  end
  if log.lone then
    call('HDEL', key, lone_field(log.id))
    call('RPUSH', log.key, log.lone)
  end
  for from = log.from, log.to, SLICE do
    call('RPUSH', log.key, unpack(ARGV, from, math.min(from + SLICE - 1, log.to)))
  end
  if not log.is_list then
    facts.logs = facts.logs .. log.id .. ' '
    facts.new_logs[#facts.new_logs + 1] = log.key
  end
end

-- Seals a block, unless its place is sealed otherwise already.
local function seal(log, first, last, block)
  local stored = call('LRANGE', log, math.max(first - 1, 0), last)
  local at = first == 0 and 1 or 2
  if #stored < last - first + at or stored[#stored] == SEALED then return end
  if first > 0 and stored[at] == SEALED and stored[1] == SEALED then return end
  for i = at, #stored do
    local position, bytes = first + i - at, SEALED
    if position == last then bytes = block end
    if stored[i] ~= bytes then call('LSET', log, position, bytes) end
    if stored[i] ~= SEALED and stored[i] ~= PRUNED and position ~= last then
      facts.elements = facts.elements - 1
    end
  end
end

-- The `seq` of the latest stored checkpoint that has the same parent; 0 for none.
local function elder_of()
  local raw, elder = string.gsub(parent, '%z\255', NUL), 0
  for _, entry in ipairs(read_entries(call('HGET', key, 'f' .. ns) or '')) do
    if entry[2] == raw then elder = math.max(elder, entry[1]) end
  end
  if elder > 0 then return elder end
  local lowest = '-'
  if not has_children then
    -- So all its children come after it.
    if not parent_stored or not latest then return 0 end
    if place_of(latest) == parent_place then return 0 end
    local row = read_checkpoint(parent_place, call('HGET', key, 'c' .. parent_place))
    lowest = '(' .. new_member(row.order_id, row.n, ns, parent)
  end
  while true do
    local members = call('ZRANGEBYLEX', key .. ':i', lowest, '+', 'LIMIT', 0, 200)
    for _, member in ipairs(members) do
      local other = place_of(member)
      if namespace_of(other) == ns then
        local value = call('HGET', key, 'c' .. other)
        local row = value and read_checkpoint(other, value)
        if row and parent_of(value, row.at) == raw then elder = math.max(elder, row.seq) end
      end
    end
    if #members < 200 then return elder end
    lowest = '(' .. members[#members]
  end
end

-- The order key of a checkpoint that is new.
local function place_in_order()
  if latest then
    local _, latest_id, latest_n = read_member(latest)
    if parent_stored and not is_named and not above(id, latest_id) then
      return latest_id, latest_n + 1
    end
  end
  if is_named and parent_stored then set_field(facts, 'n' .. parent_place, '') end
  return id, 0
end

local function add_checkpoint()
  local elder = parent and elder_of() or 0
  local order_id, n = place_in_order()
  local member = new_member(order_id, n, ns, id)
  call('ZADD', key .. ':i', 0, member)
  if not latest then facts.heads = facts.heads + 1 end
  if not latest or above(member, latest) then set_field(facts, latest_field, member) end
  if order_id ~= id then
    local moved = call('HGET', key, 'm' .. id .. NUL) or ''
    set_field(facts, 'm' .. id .. NUL, moved .. pack_entries({ { n, string.sub(ns, 1, -2) } }))
  end
  if elder > 0 then
    local raw = string.gsub(parent, '%z\255', NUL)
    local forks = call('HGET', key, 'f' .. ns) or ''
    set_field(facts, 'f' .. ns, forks .. pack_entries({ { facts.saves, raw } }))
  end
  facts.count = facts.count + 1
  if facts.early ~= '' then facts.early = without(facts.early, place) end
  return new_checkpoint(order_id, n, facts.saves, elder, id, body)
end

-- A checkpoint that is stored already: it may get another parent, but keeps its place.
local function replace_checkpoint()
  local row = read_checkpoint(place, stored)
  local raw = parent and string.gsub(parent, '%z\255', NUL)
  if parent_of(stored, row.at) ~= raw then
    if parent then set_field(facts, 'n' .. parent_place, '') end
    if row.elder > 0 then
      local entries = {}
      for _, entry in ipairs(read_entries(call('HGET', key, 'f' .. ns) or '')) do
        if entry[1] ~= row.seq then entries[#entries + 1] = entry end
      end
      if raw then entries[#entries + 1] = { row.seq, raw } end
      set_field(facts, 'f' .. ns, pack_entries(entries))
    end
  end
  return new_checkpoint(row.order_id, row.n, row.seq, row.elder, id, body)
end

local refused = refusal()
if refused then return { refused, '0' } end
local logs, first_arg = {}, 3
for i, log in ipairs(args.logs) do
  logs[i] = check_log(log, first_arg)
  if not logs[i] then return { 'log taken', '0' } end
  first_arg = first_arg + log[3]
end

if makes_way then drop_life(facts, bucket) end
if not known then
  if facts.generation == 0 then facts.generation = args.new_generation end
  facts.created = now
  set_limits(facts, args.limits, args.own)
  call('UNLINK', key .. ':i') -- of a life whose hash was evicted
  -- Entries whose threads the server expired by itself go a few at a time.
  for _, entry in ipairs(call('ZRANGEBYSCORE', bucket.due, '-inf', text(now), 'LIMIT', 0, 4)) do
    local other = string.sub(entry, 2)
    if call('EXISTS', thread_key(bucket, other)) == 0 then
      call('ZREM', bucket.due, entry)
      call('ZREM', bucket.ids, other)
      call('ZREM', bucket.cuts, other)
      drop_runs(bucket, other)
    end
  end
elseif args.own or facts.own == 0 then
  set_limits(facts, args.limits, args.own)
end
facts.waiting, facts.updated, facts.saves = args.pending and 1 or 0, now, facts.saves + 1
renew(facts, now)
if args.owner and call('HEXISTS', key, 'owner') == 0 then set_field(facts, 'owner', args.owner) end
for _, log in ipairs(logs) do
  append(log)
  for _, block in ipairs(log.blocks) do seal(log.key, block[1], block[2], block[3]) end
end
if parent and not parent_stored and parent_place ~= place then
  set_field(facts, 'n' .. parent_place, '')
end
set_field(facts, 'c' .. place, stored and replace_checkpoint() or add_checkpoint())
if args.run then
  local run, thread = args.run, escape(args.id)
  call('ZADD', bucket.runs, 0, 't' .. thread .. NUL .. run, 0, 'r' .. run .. NUL .. thread)
  facts.registers = true
end
settle(facts, bucket, now)
return { 'saved', text(facts.generation) }
