-- What scripts about items share, after `common.lua`. KEYS[1] is the registry of a bucket's
-- namespaces. Names of namespaces, heads, bodies and postings are as `docs/format.md` has them. All
-- times are microseconds of the server's clock plus the offset; 0 is never. `false` in a head is none.

-- The bytes of a posting.
local POSTING = 6

local function clock_us()
  local time = call('TIME')
  return time[1] * 1000000 + time[2] + args.offset * 1000
end

-- The bucket's key that says when something of a namespace may expire.
local function expiring_key() return string.match(KEYS[1], '^[^}]*}:') .. 'expiring' end

local function space_key(number) return string.match(KEYS[1], '^[^}]*}:') .. 'i:' .. number end

local function split_member(member) return string.match(member, '^(.*)%z(%d+)$') end

-- The number of the namespace of this name; nil if nothing is in it.
local function number_of(name)
  local first, last = '[' .. name .. NUL, '(' .. name .. NUL .. '\255'
  local member = call('ZRANGEBYLEX', KEYS[1], first, last, 'LIMIT', 0, 1)[1]
  return member and string.sub(member, #name + 2)
end

-- The facts of a namespace, nil if nothing is in it.
local function open_space(number)
  local key = space_key(number)
  local packed = call('HGET', key, 'f')
  if not packed then return nil end
  local f = cmsgpack.unpack(packed)
  return {
    key = key, number = number, name = f[1], items = f[2], texts = f[3], length = f[4],
    stamp = f[5], last = f[6], latest = f[7],
  }
end

-- The values of fields whose names begin alike; false where there is none.
local function get_fields(key, prefix, names)
  local found = {}
  for from = 1, #names, SLICE do
    local fields = {}
    for i = from, math.min(from + SLICE - 1, #names) do fields[#fields + 1] = prefix .. names[i] end
    for i, value in ipairs(call('HMGET', key, unpack(fields))) do found[from + i - 1] = value end
  end
  return found
end

local function read_head(packed)
  local h = cmsgpack.unpack(packed)
  return {
    n = h[1], key = h[2], created = h[3], updated = h[4], ttl = h[5], expires = h[6],
    length = h[7], position = h[8], session = h[9], asks = h[10], paths = h[11], since = h[12],
    oldest = h[13], versions = h[14],
  }
end

local function has_faded(head, now) return head.expires ~= 0 and head.expires <= now end

-- The value of a body, and where its tokens begin.
local function value_of(body)
  local _, stop, size = string.find(body, '^(%d+) ')
  return string.sub(body, stop + 1, stop + size), stop + size + 1
end

-- Token, occurrences, token, …
local function tokens_of(body)
  local _, from = value_of(body)
  return cmsgpack.unpack(string.sub(body, from))
end

-- The numbers of items that have expired and are still there, at most so many.
local function faded_in(space, now, limit)
  return call('ZRANGEBYSCORE', space.key .. ':e', '-inf', text(now), 'LIMIT', 0, limit)
end

local function last_block(space) return math.floor(space.last / 8192) end

-- Adds to a row, of some items those that are there: their heads as one msgpack array, then their
-- values if asked for.
local function give_items(row, key, numbers, values)
  local heads, there = {}, {}
  for i, head in ipairs(get_fields(key, 'h', numbers)) do
    if head then
      heads[#heads + 1] = head
      there[#there + 1] = numbers[i]
    end
  end
  row[#row + 1] = '\221' .. struct.pack('>I4', #heads) .. table.concat(heads)
  if values then
    for _, body in ipairs(get_fields(key, 'b', there)) do row[#row + 1] = value_of(body) end
  end
  return row
end

-- The namespaces of a page, args.lowest to args.highest, and what a reply begins with: the last of
-- them, or '' at the end.
local function open_spaces()
  local members = call('ZRANGEBYLEX', KEYS[1], args.lowest, args.highest, 'LIMIT', 0, args.page)
  local spaces = {}
  for _, member in ipairs(members) do
    local _, number = split_member(member)
    spaces[#spaces + 1] = open_space(number)
  end
  return spaces, { #members == args.page and members[#members] or '' }
end

-- The numbers of the items of some keys.
local function numbers_of(space_key, keys)
  local found = {}
  for _, n in ipairs(get_fields(space_key, 'k', keys)) do
    if n then found[#found + 1] = n end
  end
  return found
end

-- A version's field.
local function version_field(head, number) return 'w' .. head.n .. ' ' .. number end

local function pack_head(h)
  return cmsgpack.pack({
    h.n, h.key, h.created, h.updated, h.ttl, h.expires, h.length, h.position, h.session, h.asks,
    h.paths, h.since, h.oldest, h.versions,
  })
end

-- A namespace whose items are going to change; `settle_space` writes what is noted here.
local function change_space(space)
  space.changed, space.added, space.removed = {}, {}, {}
  return space
end

-- Notes that an item has, or no longer has, a token so often.
local function note_token(space, notes, field, entry)
  if not space.added[field] and not space.removed[field] then
    space.changed[#space.changed + 1] = field
  end
  local noted = notes[field]
  if noted then noted[#noted + 1] = entry else notes[field] = { entry } end
end

-- What a posting of an item begins with: its field without the token, its place there.
local function posting_place(n)
  local offset = n % 8192
  return 't' .. (n - offset) / 8192 .. ' ', string.char(math.floor(offset / 256), offset % 256)
end

-- A posting: the place, occurrences, the length of the text.
local function add_token(space, block, place, token, count, length)
  length = math.min(length, 16777215)
  local short = length % 65536
  note_token(space, space.added, block .. token, place .. string.char(
    math.min(count, 255), (length - short) / 65536, math.floor(short / 256), short % 256
  ))
end

-- Postings without that of the item at `place`.
local function cut_posting(postings, place)
  local from = 1
  while true do
    local i = string.find(postings, place, from, true)
    if not i then return postings end
    if i % POSTING == 1 then
      return string.sub(postings, 1, i - 1) .. string.sub(postings, i + POSTING)
    end
    from = i + 1
  end
end

local function write_postings(space)
  for from = 1, #space.changed, 1000 do
    local fields = {}
    for i = from, math.min(from + 999, #space.changed) do fields[#fields + 1] = space.changed[i] end
    local set, gone = {}, {}
    for i, postings in ipairs(call('HMGET', space.key, unpack(fields))) do
      local field = fields[i]
      postings = postings or ''
      for _, place in ipairs(space.removed[field] or {}) do postings = cut_posting(postings, place) end
      postings = postings .. table.concat(space.added[field] or {})
      if postings == '' then
        gone[#gone + 1] = field
      else
        set[#set + 1] = field
        set[#set + 1] = postings
      end
    end
    if #gone > 0 then call('HDEL', space.key, unpack(gone)) end
    if #set > 0 then call('HSET', space.key, unpack(set)) end
  end
end

-- Takes an item out of the list of those that are at its position, or puts it there.
local function move_position(space, head, there)
  if not head.position then return end
  local field, own = 'p' .. text(head.position), head.n .. ' '
  local found = call('HGET', space.key, field) or ''
  local kept = string.gsub(found, '%d+ ', function(other) if other == own then return '' end end)
  kept = there and kept .. own or kept
  if kept == '' then call('HDEL', space.key, field) else call('HSET', space.key, field, kept) end
end

local function drop_versions(space, head, keeps)
  while head.versions > keeps do
    call('HDEL', space.key, version_field(head, head.oldest))
    head.oldest, head.versions = head.oldest + 1, head.versions - 1
  end
end

local function count_text(space, length, sign)
  if length == 0 then return end
  space.texts, space.length = space.texts + sign, space.length + sign * length
end

-- Deletes an item with all that finds it. What frees memory comes first: a server that is full
-- takes the rest of a script then.
local function drop_item(space, head)
  local body = call('HGET', space.key, 'b' .. head.n)
  call('HDEL', space.key, 'k' .. head.key, 'h' .. head.n, 'b' .. head.n)
  call('ZREM', space.key .. ':o', head.n)
  call('ZREM', space.key .. ':e', head.n)
  call('HDEL', space.key .. ':x', head.n)
  drop_versions(space, head, 0)
  move_position(space, head, false)
  local block, place = posting_place(head.n)
  local tokens = tokens_of(body)
  for i = 1, #tokens, 2 do note_token(space, space.removed, block .. tokens[i], place) end
  count_text(space, head.length, -1)
  space.items = space.items - 1
end

-- Says when an item expires.
local function set_deadline(space, head)
  if head.expires == 0 then
    call('ZREM', space.key .. ':e', head.n)
  else
    call('ZADD', space.key .. ':e', text(head.expires), head.n)
    call('ZADD', expiring_key(), 'LT', text(head.expires), space.number)
  end
end

local function drop_space(space)
  call('ZREM', KEYS[1], space.name .. NUL .. space.number)
  call('ZREM', expiring_key(), space.number)
  call('UNLINK', space.key, space.key .. ':o', space.key .. ':e', space.key .. ':x')
end

-- Writes what was noted; a namespace goes with its last item.
local function settle_space(space, stamp)
  if space.items == 0 then
    drop_space(space)
    return
  end
  write_postings(space)
  local first = call('ZRANGE', space.key .. ':e', 0, 0, 'WITHSCORES')[2]
  if first then
    call('ZADD', expiring_key(), first, space.number)
  else
    call('ZREM', expiring_key(), space.number)
  end
  call('HSET', space.key, 'f', cmsgpack.pack({
    space.name, space.items, space.texts, space.length, stamp, space.last, space.latest,
  }))
end
