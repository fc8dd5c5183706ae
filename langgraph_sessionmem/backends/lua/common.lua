-- What scripts share. Of this file and `saving.lua` each script is given the functions that it uses;
-- they are divided by empty lines, and have none inside.
--
-- KEYS[1] says where: a thread's hash, or the ids of a bucket. The other keys of the bucket and its
-- threads are named from it: they have the bucket's hash tag, so they are in the same slot. ARGV[1]
-- is a msgpack map of named arguments (`args`), `args.offset` always among them; a script says the
-- others. Texts in it are escaped where `docs/format.md` has them escaped. All times are
-- milliseconds of the server's clock plus the offset; 0 is none.
-- Strings are never compared with `<`: Lua does that by locale.
if redis.replicate_commands then redis.replicate_commands() end -- Redis 6.2 asks for it
local call = redis.call
local args = cmsgpack.unpack(ARGV[1])
local NUL = string.char(0)
local SEALED, PRUNED = '', NUL
local EARLY_MS = 600000
local TOMBSTONE_MS = 3600000
local TOLD, TOLD_MS = 'e', 30 * 86400000
local AGED, AGED_MS = 'a', 3600000
local CHUNK_BYTES = 4096
local GRACE_MS = 600000
local SLICE = 4000 -- Lua's `unpack` has a limit near 8,000
local NO_LIFE, NO_FACTS = '\153' .. string.rep(NUL, 9), '\157' .. string.rep(NUL, 13)

local function text(number) return string.format('%.0f', number) end

local function clock()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + args.offset
end

-- The bucket's keys; KEYS[1] begins with what they share.
local function open_bucket()
  local base = string.match(KEYS[1], '^[^}]*}:')
  return {
    base = base, ids = base .. 'ids', due = base .. 'due', cuts = base .. 'cuts',
    runs = base .. 'runs', marks = base .. 'marks', tombstones = base .. 'tombstones',
  }
end

local function thread_key(bucket, id)
  return bucket.base .. 't:' .. string.sub(redis.sha1hex(id), 3, 20)
end

-- Whether the bytes of `a` come after those of `b`.
local function above(a, b)
  local from = 1
  while from <= #a and string.sub(a, from, from + 7) == string.sub(b, from, from + 7) do
    from = from + 8
  end
  for i = from, math.min(#a, #b) do
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

local function escape(s) return (string.gsub(s, '%z', NUL .. '\255')) end

-- The namespace of a place with its NUL.
local function namespace_of(place) return string.sub(place, 1, terminator(place, 1)) end

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

local function place_of(member)
  local _, _, _, place = read_member(member)
  return place
end

-- `ns` with its NUL.
local function new_member(order_id, n, ns, id)
  local digits = text(n)
  return order_id .. NUL .. #digits .. digits .. ns .. (id == order_id and '' or '+' .. id)
end

-- A checkpoint's field: its order, `seq`, `elder` (0: none), and its body, which begins at `at`.
local function read_checkpoint(place, value)
  local _, stop, n, size, seq, elder = string.find(value, '^(%-?%d+) (%d+) (%d+) (%d+) ')
  local ns = namespace_of(place)
  local found = {
    n = tonumber(n), seq = tonumber(seq), elder = tonumber(elder), ns = ns,
    id = string.sub(place, #ns + 1), at = stop + size + 1,
  }
  found.order_id = size == '0' and found.id or string.sub(value, stop + 1, stop + size)
  return found
end

-- The parent's id as it is, or nil: the first of the array that is a checkpoint's body.
local function parent_of(value, at)
  local _, parent = cmsgpack.unpack_one(value, at)
  return parent
end

local function is_past(deadline, now) return deadline ~= 0 and deadline <= now end

-- The facts in the fields `life` and `facts`, `docs/format.md` has their places; nil: none.
local function read_facts(life, facts)
  local l, f = cmsgpack.unpack(life or NO_LIFE), cmsgpack.unpack(facts or NO_FACTS)
  return {
    generation = l[1], created = l[2], idle = l[3], max_age = l[4], interrupted = l[5],
    refresh = l[6], own = l[7], keeps = l[8], tells = l[9],
    updated = f[1], count = f[2], heads = f[3], anchors = f[4], saves = f[5], elements = f[6],
    waiting = f[7], idle_until = f[8], ends_at = f[9], first = f[10], native = f[11],
    cut_at = f[12], early_due = f[13],
  }
end

-- A thread: its facts; `known`: it has a checkpoint. `id` nil: whatever thread is at `key`.
local function load_thread(key, id)
  local values = call('HMGET', key, 'thread', 'facts', 'logs', 'early', 'life')
  if id and values[1] and values[1] ~= id then error('two thread ids share the key ' .. key) end
  local facts = read_facts(values[5], values[2])
  facts.key, facts.thread = key, id or values[1]
  facts.stored = { thread = values[1], facts = values[2], life = values[5] }
  facts.logs, facts.early, facts.known = values[3] or '', values[4] or '', facts.count > 0
  return facts
end

local function has_expired(facts, now)
  return is_past(facts.ends_at, now) or (facts.keeps == 0 and is_past(facts.idle_until, now))
end

local function is_alive(facts, now) return facts.known and not has_expired(facts, now) end

-- Whether only the latest checkpoint of each namespace is visible.
local function is_idle(facts, now) return facts.keeps == 1 and is_past(facts.idle_until, now) end

local function sooner(a, b)
  if a == 0 or b == 0 then return a + b end
  return math.min(a, b)
end

-- What every row of a thread says of it: 1 if reading counts as a sign of life, 2 more if it is idle.
local function flags(facts, now) return facts.refresh + (is_idle(facts, now) and 2 or 0) end

-- When the thread expires; one that keeps its latest does so by its age only.
local function deadline(facts)
  return sooner(facts.keeps == 0 and facts.idle_until or 0, facts.ends_at)
end

local function log_keys(facts)
  local keys = {}
  for log in string.gmatch(facts.logs, '%d+') do keys[#keys + 1] = facts.key .. ':' .. log end
  return keys
end

-- Where a log of one element is: in the thread's hash.
local function lone_field(log) return 'e' .. log .. NUL end

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

-- The rows of a chunk: key (number and task), first and last byte of each.
local function each_write(chunk)
  local i = 1
  return function()
    if i > #chunk then return nil end
    local _, stop, task_size, idx, size = string.find(chunk, '^(%d+) (%-?%d+) (%d+) %-?%d+ ', i)
    local first, last = i, stop + task_size + size
    i = last + 1
    return idx .. ' ' .. string.sub(chunk, stop + 1, stop + task_size), first, last
  end
end

-- A list of numbered entries: number, size, and the bytes of each; the first two with a space after.
local function read_entries(packed)
  local found, i = {}, 1
  while i <= #packed do
    local _, stop, number, size = string.find(packed, '^(%d+) (%d+) ', i)
    found[#found + 1] = { tonumber(number), string.sub(packed, stop + 1, stop + size) }
    i = stop + size + 1
  end
  return found
end

local function anchor_places(facts)
  if facts.anchors == 0 then return {} end
  return read_entries(call('HGET', facts.key, 'anchors') or '')
end

-- Whether a mark stands that was to begin so long before its end.
local function has_mark(bucket, kind, span, now)
  local ends = call('ZSCORE', bucket.marks, kind .. args.mark)
  return ends and tonumber(ends) > now and tonumber(ends) - span <= now
end

-- Whether a checkpoint of the index is the latest of its namespace.
local function is_latest(facts, member, place)
  return call('HGET', facts.key, 'h' .. namespace_of(place)) == member
end

-- Checkpoints of one id, in every namespace: their places. Of an idle thread the latest only.
local function places_of(facts, id, idle)
  local found = {}
  local function add(member, place)
    if not idle or is_latest(facts, member, place) then found[#found + 1] = place end
  end
  local members = call('ZRANGEBYLEX', facts.key .. ':i', '[' .. id .. NUL, '(' .. id .. NUL .. '\255')
  for _, member in ipairs(members) do
    local _, order_id, _, place = read_member(member)
    if order_id == id and string.sub(place, terminator(place, 1) + 1) == id then
      add(member, place)
    end
  end
  for _, entry in ipairs(read_entries(call('HGET', facts.key, 'm' .. id .. NUL) or '')) do
    local place = entry[2] .. NUL .. id
    local row = idle and read_checkpoint(place, call('HGET', facts.key, 'c' .. place))
    add(row and new_member(row.order_id, row.n, row.ns, row.id), place)
  end
  return found
end

local function index_is_whole(facts) return call('ZCARD', facts.key .. ':i') == facts.count end

-- When a thread expires, as it is told; 0 for never, and for an idle one that keeps its latest.
local function expires_at(facts, now)
  return is_idle(facts, now) and 0 or sooner(facts.idle_until, facts.ends_at)
end

-- Bytes in memory of all keys of a thread.
local function size_of(facts)
  local size = 0
  for _, key in ipairs({ facts.key, facts.key .. ':i', unpack(log_keys(facts)) }) do
    size = size + (call('MEMORY', 'USAGE', key, 'SAMPLES', 0) or 0)
  end
  return size
end

-- A row of `scan_threads`, in msgpack.
local function thread_row(facts, now)
  local idle = is_idle(facts, now)
  return cmsgpack.pack({
    facts.thread, facts.generation, facts.created, facts.updated, expires_at(facts, now),
    idle and facts.heads or facts.count, size_of(facts), call('HGET', facts.key, 'owner'),
    facts.saves, facts.idle, facts.max_age, facts.interrupted, facts.refresh, facts.keeps,
    facts.tells, facts.own, facts.waiting,
  })
end
