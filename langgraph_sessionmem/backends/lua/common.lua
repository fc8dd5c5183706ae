-- What every script shares: it is put before each of them.
--
-- A script declares in KEYS what it always touches. Logs and indexes of a thread, and threads of a
-- bucket, it names itself, from a declared key or a base in ARGV: they have the bucket's hash tag,
-- so they are in the same slot. All times are milliseconds of the server's clock plus an offset.
-- Strings are never compared with `<`: Lua does that by locale.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 6.2 asks for it
local call = redis.call
local NUL = string.char(0)
local EARLY_MS = 600000
local TOMBSTONE_MS = 3600000
local CHUNK_BYTES = 4096
local GRACE_MS = 600000
local SLICE = 4000 -- Lua's `unpack` has a limit near 8,000
local FACTS = {
  'thread', 'generation', 'created', 'updated', 'count', 'limits', 'waiting', 'idle_until',
  'ends_at', 'native', 'logs', 'early',
}

local HASH_SIZE = 24

-- The key of a thread's hash, of which `base` says the bucket.
local function thread_key(base, id) return base .. string.sub(redis.sha1hex(id), 1, HASH_SIZE) end

local function text(number) return string.format('%.0f', number) end

local function clock(offset)
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + offset
end

-- Whether the bytes of `a` come after those of `b`.
local function above(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x > y end
  end
  return #a > #b
end

-- Where the escaped text that begins at `i` ends: at a NUL that isn't followed by 255.
local function terminator(s, i)
  while true do
    i = string.find(s, NUL, i, true)
    if string.byte(s, i + 1) ~= 255 then return i end
    i = i + 2
  end
end

-- An index member: order id, NUL, the number of digits, the number; namespace, NUL; then '+' and the
-- checkpoint id, unless it is the order id. Gives the bytes that order it, id and number, the place.
local function read_member(member)
  local stop = terminator(member, 1)
  local first = stop + 2
  local last = first + tonumber(string.sub(member, stop + 1, stop + 1)) - 1
  local order_id, place = string.sub(member, 1, stop - 1), string.sub(member, last + 1)
  local ns_end = terminator(place, 1)
  local id = ns_end == #place and order_id or string.sub(place, ns_end + 2)
  place = string.sub(place, 1, ns_end) .. id
  return string.sub(member, 1, last), order_id, tonumber(string.sub(member, first, last)), place
end

local function new_member(order_id, n, ns, id)
  local digits = text(n)
  local tail = id == order_id and '' or '+' .. id
  return order_id .. NUL .. #digits .. digits .. ns .. NUL .. tail
end

-- The facts of the thread at `key`; what isn't there is ''. `id` nil: whatever thread it is.
local function load_thread(key, id)
  local values = call('HMGET', key, unpack(FACTS))
  local facts = { key = key, was = {}, fields = {}, new_logs = {} }
  for i, name in ipairs(FACTS) do
    facts[name] = values[i] or ''
    facts.was[name] = facts[name]
  end
  if id and facts.thread ~= '' and facts.thread ~= id then
    error('two thread ids share the key ' .. key)
  end
  facts.thread = id or facts.thread
  facts.known = facts.count ~= '' and facts.count ~= '0'
  return facts
end

-- Sets a field of the thread's hash, when `settle` writes them all at once.
local function set_field(facts, name, value)
  facts.fields[#facts.fields + 1] = name
  facts.fields[#facts.fields + 1] = value
end

local function is_past(deadline, now) return deadline ~= '' and tonumber(deadline) <= now end

local function has_expired(facts, now)
  return is_past(facts.idle_until, now) or is_past(facts.ends_at, now)
end

local function is_alive(facts, now) return facts.known and not has_expired(facts, now) end

-- When the thread expires, or nil.
local function deadline(facts)
  local idle, ends = tonumber(facts.idle_until), tonumber(facts.ends_at)
  if idle and ends then return math.min(idle, ends) end
  return idle or ends
end

-- `limits`: idle, max age, interrupted (ms or '-'), refresh on read, the thread's own (0 or 1).
local function renew(facts, now)
  local idle, max_age, interrupted = string.match(facts.limits, '^(%S+) (%S+) (%S+) ')
  local limit = facts.waiting == '1' and interrupted or idle
  facts.idle_until = limit == '-' and '' or text(now + limit)
  facts.ends_at = max_age == '-' and '' or text(facts.created + max_age)
end

local function refreshes(facts) return string.sub(facts.limits, -3, -3) end

local function log_keys(facts)
  local keys = {}
  for log in string.gmatch(facts.logs, '%d+') do keys[#keys + 1] = facts.key .. ':' .. log end
  return keys
end

local function write_field(place, chunk)
  return 'w' .. place .. (chunk == 1 and '' or NUL .. chunk)
end

-- All chunks of writes of the checkpoint at `place`, after what `row` holds.
local function write_chunks(facts, place, row)
  local chunks, number = row or {}, 1
  while true do
    local chunk = call('HGET', facts.key, write_field(place, number))
    if not chunk then return chunks end
    chunks[#chunks + 1] = chunk
    number = number + 1
  end
end

-- Early writes: {due, place} each, the oldest first.
local function early_writes(facts)
  local found, i = {}, 1
  while i <= #facts.early do
    local _, stop, due, size = string.find(facts.early, '^(%d+) (%d+) ', i)
    found[#found + 1] = { tonumber(due), string.sub(facts.early, stop + 1, stop + size) }
    i = stop + size + 1
  end
  return found
end

local function set_early(facts, entries)
  local parts = {}
  for i, entry in ipairs(entries) do
    parts[i] = text(entry[1]) .. ' ' .. #entry[2] .. ' ' .. entry[2]
  end
  facts.early = table.concat(parts)
end

-- Deletes a life with all its keys; early writes stay, they may belong to the next one.
local function drop_life(facts)
  local kept = {}
  for _, entry in ipairs(early_writes(facts)) do
    for i, chunk in ipairs(write_chunks(facts, entry[2])) do
      kept[#kept + 1] = { write_field(entry[2], i), chunk }
    end
  end
  call('UNLINK', facts.key, facts.key .. ':i')
  for _, key in ipairs(log_keys(facts)) do call('UNLINK', key) end
  for _, pair in ipairs(kept) do set_field(facts, pair[1], pair[2]) end
  for _, name in ipairs(FACTS) do
    facts.was[name] = name ~= 'early' and '' or nil
    if name ~= 'thread' and name ~= 'early' then facts[name] = '' end
  end
  facts.known = false
end

-- Gives keys their native deadline, or none.
local function expire(keys, ends, offset)
  for _, key in ipairs(keys) do
    if ends then call('PEXPIREAT', key, text(ends - offset)) else call('PERSIST', key) end
  end
end

-- The native deadline may be later than the thread's by a sixteenth of what is left, at most ten
-- minutes: so it is moved now and then, not with every checkpoint. Whether it was moved.
local function move_native(facts, now)
  local ends = deadline(facts)
  if not ends then
    facts.native = ''
    return facts.was.native ~= ''
  end
  local first, last = string.match(facts.native, '^(%d+) (%d+)$')
  if first and tonumber(first) <= ends and ends <= tonumber(last) then return false end
  local grace = math.ceil(math.min(math.max(ends - now, 0) / 16, GRACE_MS))
  facts.native = text(ends) .. ' ' .. text(ends + grace)
  return true
end

-- When the last of a bucket's threads is gone, one of which ends at `ends`; nil for never.
local function registry_end(due, ends, now)
  local latest, left = call('ZREVRANGE', due, 0, 0, 'WITHSCORES')[2], call('PTTL', due)
  if latest == 'inf' then return nil end
  local last = math.max(tonumber(latest), ends or 0)
  if left >= 0 then return math.max(last, now + left) end
  -- A thread that lives for ever has gone, or the registry is new.
  return last + (call('ZCARD', due) > 1 and GRACE_MS or 0)
end

-- Writes what changed of the thread's hash, and the deadlines of its keys, in the registry too.
local function settle(facts, ids, due, offset, now)
  local key, was, id = facts.key, facts.was, facts.thread
  facts.known = facts.count ~= '' and facts.count ~= '0'
  if not facts.known then
    call('ZREM', ids, id)
    call('ZREM', due, 't' .. id)
  end
  local early = early_writes(facts)
  local early_changed = facts.early ~= was.early
  if #early > 0 then
    if early_changed then call('ZADD', due, text(early[1][1]), 'e' .. id) end
  elseif was.early ~= '' then
    call('ZREM', due, 'e' .. id)
  end
  if not facts.known and #early == 0 then
    call('UNLINK', key)
    return
  end
  local moved = early_changed
  if facts.known then
    moved = move_native(facts, now) or was.count == '' or was.count == '0'
  else
    facts.native = ''
  end
  for _, name in ipairs(FACTS) do
    if facts[name] ~= was[name] then set_field(facts, name, facts[name]) end
  end
  for from = 1, #facts.fields, SLICE do
    call('HSET', key, unpack(facts.fields, from, math.min(from + SLICE - 1, #facts.fields)))
  end
  local first, last = string.match(facts.native, '^(%d+) (%d+)$')
  local ends = tonumber(last)
  if not facts.known then ends = early[#early][1] end
  if moved then
    expire({ key, key .. ':i' }, ends, offset)
    expire(log_keys(facts), ends, offset)
  elseif ends then
    expire(facts.new_logs, ends, offset)
  end
  if facts.known and moved then
    call('ZADD', ids, 0, id)
    call('ZADD', due, first or '+inf', 't' .. id)
  end
  if moved or early_changed then expire({ ids, due }, registry_end(due, ends, now), offset) end
end

local function has_tombstone(tombstones, mark, now)
  local ends = call('ZSCORE', tombstones, mark)
  return ends and tonumber(ends) > now
end

-- Checkpoints of one id, in every namespace: their places.
local function places_of(facts, id)
  local found = {}
  local members = call('ZRANGEBYLEX', facts.key .. ':i', '[' .. id .. NUL, '(' .. id .. NUL .. '\255')
  for _, member in ipairs(members) do
    local _, order_id, _, place = read_member(member)
    if order_id == id and string.sub(place, terminator(place, 1) + 1) == id then
      found[#found + 1] = place
    end
  end
  local moved = call('HGET', facts.key, 'm' .. id .. NUL) or ''
  local i = 1
  while i <= #moved do
    local _, stop, size = string.find(moved, '^(%d+) ', i)
    found[#found + 1] = string.sub(moved, stop + 1, stop + size) .. NUL .. id
    i = stop + size + 1
  end
  return found
end

local function index_is_whole(facts)
  return call('ZCARD', facts.key .. ':i') == tonumber(facts.count)
end
