-- Cuts checkpoints and elements from a thread, and turns checkpoints into anchors; all or nothing.
-- args: id, mark, generation, saves, checkpoints (places), runs {log, first, last}, wakes;
--   anchors {place, body, chunks of writes}; roots (places) stay, without a parent from now on.
-- Gives 1, or 0 if the thread was saved to or cut since.
local key, bucket, now = KEYS[1], open_bucket(), clock()
local facts = open_thread(key, args.id)
if not facts.known or facts.generation ~= args.generation or facts.saves ~= args.saves then return 0 end
facts.saves = facts.saves + 1

local NIL = string.char(192) -- in msgpack
local forks, named, cut = {}, {}, {}

-- A checkpoint with an elder sibling goes, or has no parent any more.
local function note_fork(row)
  forks[row.ns] = forks[row.ns] or {}
  forks[row.ns][row.seq] = true
end

-- Takes a checkpoint out of everything but its own field; gives its row and its parent's id.
local function take_out(place)
  local value = call('HGET', key, 'c' .. place)
  if not value then return nil end
  local row = read_checkpoint(place, value)
  drop_writes(facts, place)
  if row.n < 0 then return row end
  call('ZREM', key .. ':i', new_member(row.order_id, row.n, row.ns, row.id))
  facts.count = facts.count - 1
  if row.order_id ~= row.id then
    local field = 'm' .. row.id .. NUL
    local rest = without(call('HGET', key, field) or '', string.sub(row.ns, 1, -2))
    if rest == '' then call('HDEL', key, field) else call('HSET', key, field, rest) end
  end
  if row.elder > 0 then note_fork(row) end
  cut[row.ns] = true
  local parent = parent_of(value, row.at)
  if parent then named[row.ns .. escape(parent)] = false end
  return row
end

local anchors, is_changed = anchor_places(facts), false
local function forget_anchor(place)
  local kept = {}
  for _, entry in ipairs(anchors) do
    if entry[2] ~= place then kept[#kept + 1] = entry end
  end
  is_changed = is_changed or #kept ~= #anchors
  anchors = kept
end

for _, place in ipairs(args.checkpoints) do
  local row = take_out(place)
  if row then
    call('HDEL', key, 'c' .. place)
    named[place] = false
    if row.n < 0 then forget_anchor(place) end
  end
end
for _, anchor in ipairs(args.anchors) do
  local place = anchor[1]
  local row = take_out(place)
  if row then
    forget_anchor(place)
    anchors[#anchors + 1] = { row.seq, place }
    is_changed = true
    set_field(facts, 'c' .. place, new_checkpoint(row.id, -1, row.seq, row.elder, row.id, anchor[2]))
    for number, chunk in ipairs(anchor[3]) do
      set_field(facts, write_field(place, number), chunk)
    end
  end
end
for _, place in ipairs(args.roots) do
  local value = call('HGET', key, 'c' .. place)
  if value then
    local row = read_checkpoint(place, value)
    local rest = cmsgpack.unpack_one(value, row.at)
    if row.elder > 0 then note_fork(row) end
    call('HSET', key, 'c' .. place, string.sub(value, 1, row.at) .. NIL .. string.sub(value, rest + 1))
  end
end
if is_changed then
  facts.anchors = #anchors
  if #anchors > 0 then
    set_field(facts, 'anchors', pack_entries(anchors))
  else
    call('HDEL', key, 'anchors')
  end
end

-- What is left of each namespace: its latest, its forks, and whom it names as parents.
local latest = {}
if next(cut) then
  local highest = '+'
  while true do
    local members = call('ZREVRANGEBYLEX', key .. ':i', highest, '-', 'LIMIT', 0, 200)
    for _, member in ipairs(members) do
      local place = place_of(member)
      local ns = namespace_of(place)
      latest[ns] = latest[ns] or member
      if cut[ns] then
        local value = call('HGET', key, 'c' .. place)
        local parent = parent_of(value, read_checkpoint(place, value).at)
        if parent and named[ns .. escape(parent)] == false then named[ns .. escape(parent)] = true end
      end
    end
    if #members < 200 then break end
    highest = '(' .. members[#members]
  end
end
for ns in pairs(cut) do
  if not latest[ns] then
    call('HDEL', key, 'h' .. ns)
    facts.heads = facts.heads - 1
  elseif call('HGET', key, 'h' .. ns) ~= latest[ns] then
    set_field(facts, 'h' .. ns, latest[ns])
  end
end
for ns, gone in pairs(forks) do
  local kept = {}
  for _, entry in ipairs(read_entries(call('HGET', key, 'f' .. ns) or '')) do
    if not gone[entry[1]] then kept[#kept + 1] = entry end
  end
  if #kept > 0 then set_field(facts, 'f' .. ns, pack_entries(kept)) else call('HDEL', key, 'f' .. ns) end
end
for place, is_named in pairs(named) do
  if not is_named then
    call('HDEL', key, 'n' .. place)
  elseif call('HEXISTS', key, 'c' .. place) == 0 then
    set_field(facts, 'n' .. place, '')
  end
end

-- A log of one element, if the run names it.
local function drop_lone(log, first)
  if first == 0 and call('HDEL', key, lone_field(log)) == 1 then facts.elements = facts.elements - 1 end
end

-- Empties the places of a run, but none that belong to a block which goes on beyond it.
local function empty(log, first, last)
  local stored = call('LRANGE', log, math.max(first - 1, 0), last)
  local from, to = first == 0 and 1 or 2, #stored
  local offset = first - from
  if first > 0 and stored[1] == SEALED then
    while from <= to and stored[from] == SEALED do from = from + 1 end
    from = from + 1
  end
  while to >= from and stored[to] == SEALED do to = to - 1 end
  for i = from, to do
    if stored[i] ~= PRUNED then call('LSET', log, i + offset, PRUNED) end
    if stored[i] ~= PRUNED and stored[i] ~= SEALED then facts.elements = facts.elements - 1 end
  end
end

local function is_empty(log)
  local last = call('LLEN', log) - 1
  while last >= 0 do
    for _, stored in ipairs(call('LRANGE', log, math.max(last - 199, 0), last)) do
      if stored ~= PRUNED then return false end
    end
    last = last - 200
  end
  return true
end

local touched = {}
for _, run in ipairs(args.runs) do
  if string.find(facts.logs, run[1] .. ' ', 1, true) then
    empty(key .. ':' .. run[1], run[2], run[3])
    touched[run[1]] = true
  else
    drop_lone(run[1], run[2])
  end
end
for log in pairs(touched) do
  if is_empty(key .. ':' .. log) then
    call('UNLINK', key .. ':' .. log)
    local kept = {}
    for other in string.gmatch(facts.logs, '%d+') do
      if other ~= log then kept[#kept + 1] = other .. ' ' end
    end
    facts.logs = table.concat(kept)
  end
end

if args.wakes then facts.idle_until = 0 end
if facts.count == 0 then drop_life(facts, bucket) end
settle(facts, bucket, now)
return 1
