-- What scripts that save share, after `common.lua`. Such a script opens a thread, changes its facts,
-- and settles it at the end, which writes what changed.

local function new_checkpoint(order_id, n, seq, elder, id, body)
  local order = order_id == id and '' or order_id
  return text(n) .. ' ' .. #order .. ' ' .. text(seq) .. ' ' .. text(elder) .. ' ' .. order .. body
end

-- Until when the thread refuses saves as too old; 0 where it does not end by its age.
local function aged_until(facts)
  local ends = facts.ends_at
  local idles = facts.keeps == 0 and facts.idle_until ~= 0 and facts.idle_until < ends
  return facts.known and ends ~= 0 and not idles and ends + AGED_MS or 0
end

local function is_aged(facts, now) return is_past(facts.ends_at, now) and aged_until(facts) > now end

-- A thread that is going to be changed.
local function open_thread(key, id)
  local facts = load_thread(key, id)
  facts.fields, facts.new_logs = {}, {}
  facts.was = {
    known = facts.known, logs = facts.logs, early = facts.early, aged_until = aged_until(facts),
  }
  return facts
end

-- The fields `life` and `facts`, as `read_facts` reads them.
local function pack_facts(f)
  local life = {
    f.generation, f.created, f.idle, f.max_age, f.interrupted, f.refresh, f.own, f.keeps, f.tells,
  }
  local facts = {
    f.updated, f.count, f.heads, f.anchors, f.saves, f.elements, f.waiting, f.idle_until, f.ends_at,
    f.first, f.native, f.cut_at, f.early_due,
  }
  return cmsgpack.pack(life), cmsgpack.pack(facts)
end

-- Sets a field of the thread's hash, when `settle` writes them all at once.
local function set_field(facts, name, value)
  facts.fields[#facts.fields + 1] = name
  facts.fields[#facts.fields + 1] = value
end

-- `limits`: idle, max age, interrupted (ms, 0 for none), refresh on read, keep latest, tells expiry.
local function set_limits(facts, limits, own)
  facts.idle, facts.max_age, facts.interrupted = limits[1], limits[2], limits[3]
  facts.refresh, facts.keeps, facts.tells = limits[4], limits[5], limits[6]
  facts.own = own and 1 or 0
  facts.relimited = true
end

local function renew(facts, now)
  local limit = facts.waiting == 1 and facts.interrupted or facts.idle
  facts.idle_until = limit == 0 and 0 or now + limit
  facts.ends_at = facts.max_age == 0 and 0 or facts.created + facts.max_age
end

local function drop_writes(facts, place)
  for number in ipairs(write_chunks(facts, place)) do
    call('HDEL', facts.key, write_field(place, number))
  end
end

local function pack_entries(entries)
  local parts = {}
  for i, entry in ipairs(entries) do
    parts[i] = text(entry[1]) .. ' ' .. #entry[2] .. ' ' .. entry[2]
  end
  return table.concat(parts)
end

-- The same without those that name `bytes`.
local function without(packed, bytes)
  local kept = {}
  for _, entry in ipairs(read_entries(packed)) do
    if entry[2] ~= bytes then kept[#kept + 1] = entry end
  end
  return pack_entries(kept)
end

-- The members of the run index that name a thread, and those that name its runs.
local function run_members(bucket, id)
  local start = 't' .. escape(id) .. NUL
  local members = call('ZRANGEBYLEX', bucket.runs, '[' .. start, '(' .. start .. '\255')
  for i = 1, #members do
    local run = string.sub(members[i], #start + 1)
    members[#members + 1] = 'r' .. run .. NUL .. escape(id)
  end
  return members
end

local function drop_runs(bucket, id)
  local members = run_members(bucket, id)
  for from = 1, #members, SLICE do
    call('ZREM', bucket.runs, unpack(members, from, math.min(from + SLICE - 1, #members)))
  end
end

-- Deletes a life with all its keys; early writes stay, they may belong to the next one.
local function drop_life(facts, bucket)
  local kept = {}
  for _, entry in ipairs(read_entries(facts.early)) do
    for i, chunk in ipairs(write_chunks(facts, entry[2])) do
      kept[#kept + 1] = { write_field(entry[2], i), chunk }
    end
  end
  call('UNLINK', facts.key, facts.key .. ':i')
  for _, key in ipairs(log_keys(facts)) do call('UNLINK', key) end
  drop_runs(bucket, facts.thread)
  facts.fields = {}
  for _, pair in ipairs(kept) do set_field(facts, pair[1], pair[2]) end
  for name, none in pairs(read_facts()) do facts[name] = none end
  facts.known, facts.logs, facts.stored = false, '', {}
  facts.was = { known = false, logs = '', early = '' }
end

-- Gives keys their native deadline, or none.
local function expire(keys, ends)
  for _, key in ipairs(keys) do
    if ends then call('PEXPIREAT', key, text(ends - args.offset)) else call('PERSIST', key) end
  end
end

-- The native deadline may be later than the thread's by a sixteenth of what is left, at most ten
-- minutes: so it is moved now and then, not with every checkpoint. Whether it was moved.
local function move_native(facts, now)
  local ends, had = deadline(facts), facts.native
  if ends == 0 then
    facts.first, facts.native = 0, 0
    return had ~= 0
  end
  if had ~= 0 and facts.first <= ends and ends <= had then return false end
  facts.first = ends
  facts.native = ends + math.ceil(math.min(math.max(ends - now, 0) / 16, GRACE_MS))
  return true
end

-- When a thread is to be cut down to its latest: the sweeper may come a little early.
local function move_cut(facts, bucket, now)
  local idle = facts.known and facts.keeps == 1 and facts.idle_until or 0
  if idle == 0 then
    if facts.cut_at ~= 0 then call('ZREM', bucket.cuts, facts.thread) end
    facts.cut_at = 0
  elseif idle < facts.cut_at or facts.cut_at == 0
    or idle - facts.cut_at > math.min((idle - now) / 16, GRACE_MS) then
    call('ZADD', bucket.cuts, text(idle), facts.thread)
    facts.cut_at, facts.registers = idle, true
  end
end

-- The bucket's own keys live as long as the longest of its threads, one of which ends at `ends`.
local function extend_registry(bucket, ends, now)
  local latest = call('ZREVRANGE', bucket.due, 0, 0, 'WITHSCORES')[2]
  local lasts = latest == 'inf'
  local last = math.max(not lasts and tonumber(latest) or 0, ends or 0)
  for _, key in ipairs({ bucket.ids, bucket.due, bucket.cuts, bucket.runs }) do
    local left = call('PTTL', key)
    if lasts then
      if left >= 0 then call('PERSIST', key) end
    elseif left == -1 or (left >= 0 and now + left < last) then
      -- What has no deadline is new, or a thread that lives for ever has gone.
      local others = left == -1 and call('ZCARD', bucket.due) > 1
      expire({ key }, last + math.ceil(others and GRACE_MS or math.min((last - now) / 16, GRACE_MS)))
    end
  end
end

-- Remembers ahead what is to be known of the thread when the server has deleted it.
local function set_mark(bucket, kind, ends, now)
  local member = kind .. args.mark
  if not ends then
    call('ZREM', bucket.marks, member)
    return
  end
  call('ZADD', bucket.marks, text(ends), member)
  local left = call('PTTL', bucket.marks)
  if left < 0 or now + left < ends then expire({ bucket.marks }, ends) end
end

-- Writes what changed of the thread's hash, and the deadlines of its keys, in the registry too.
-- Needs `args.mark`, but where a sweeper has no thread's mark.
local function settle(facts, bucket, now)
  local key, was, id = facts.key, facts.was, facts.thread
  facts.known = facts.count > 0
  local early = read_entries(facts.early)
  local early_changed = facts.early ~= was.early
  if not facts.known then
    call('ZREM', bucket.ids, id)
    call('ZREM', bucket.due, 't' .. id)
    call('ZREM', bucket.cuts, id)
    if #early == 0 then
      call('ZREM', bucket.due, 'e' .. id)
      call('UNLINK', key)
      return
    end
  end
  if #early > 0 and (facts.early_due == 0 or early[1][1] < facts.early_due) then
    -- The entry stays when its writes are no longer early: the next ones will need it.
    facts.early_due, facts.registers = early[1][1], true
    call('ZADD', bucket.due, text(facts.early_due), 'e' .. id)
  end
  local moved = early_changed
  if facts.known then
    moved = move_native(facts, now) or not was.known
  else
    facts.first, facts.native = 0, 0
  end
  move_cut(facts, bucket, now)
  if not facts.stored.thread then set_field(facts, 'thread', id) end
  local life, packed = pack_facts(facts)
  if life ~= facts.stored.life then set_field(facts, 'life', life) end
  if packed ~= facts.stored.facts then set_field(facts, 'facts', packed) end
  if facts.logs ~= was.logs then set_field(facts, 'logs', facts.logs) end
  if early_changed then set_field(facts, 'early', facts.early) end
  for from = 1, #facts.fields, SLICE do
    call('HSET', key, unpack(facts.fields, from, math.min(from + SLICE - 1, #facts.fields)))
  end
  local ends = facts.native ~= 0 and facts.native or nil
  if not facts.known then ends = early[#early][1] end
  if moved then
    expire({ key, key .. ':i' }, ends)
    expire(log_keys(facts), ends)
  elseif ends then
    expire(facts.new_logs, ends)
  end
  if facts.known and moved then
    if not was.known then call('ZADD', bucket.ids, 0, id) end
    call('ZADD', bucket.due, facts.first ~= 0 and text(facts.first) or '+inf', 't' .. id)
  end
  if args.mark and facts.known then
    if moved or facts.relimited then
      local tells = facts.tells == 1 and facts.first ~= 0
      set_mark(bucket, TOLD, tells and facts.first + TOLD_MS, now)
    end
    local ends = aged_until(facts)
    if ends ~= was.aged_until then set_mark(bucket, AGED, ends ~= 0 and ends, now) end
  end
  if moved or facts.registers then extend_registry(bucket, ends, now) end
end

local function has_tombstone(bucket, now)
  local ends = call('ZSCORE', bucket.tombstones, args.mark)
  return ends and tonumber(ends) > now
end
