-- Stores, deletes and renews items, if all are as they are expected.
-- args: names of the namespaces that are written to; numbers for those that are new; keeps: how many
--   former values; stamp; token of a save that expects something; expecting: which puts do;
--   drops {which name, key}; touched {number of a namespace, {n, ...}};
--   base: the time of the first put of the batch, last: how many of the batch come after it.
-- ARGV[2] and on: a msgpack map for each put: name (which), at: its place in the batch, key, value,
--   tokens (msgpack array), length, ttl (minutes), position, session, asks, paths (JSON), vectors,
--   expected, times {created, updated, since when it has the value}, versions {since, value, ...}:
--   the oldest first.
-- Gives {1 or 0: whether it was done; the base for what else is in the batch}.
local TOKENS, TOKEN = 16, 8
local now, spaces = clock_us(), {}
local base, latest = args.base or now - args.last, 0

-- A namespace that is written to; nil if it isn't there.
local function find_space(i)
  if spaces[i] == nil then
    local number = number_of(args.names[i])
    local space = number and open_space(number)
    spaces[i] = space and change_space(space) or false
  end
  return spaces[i] or nil
end

local function new_space(i)
  local number = args.numbers[i]
  while call('EXISTS', space_key(text(number))) == 1 do number = number % 134217727 + 1 end
  local name = args.names[i]
  call('ZADD', KEYS[1], 0, name .. NUL .. text(number))
  spaces[i] = change_space({
    key = space_key(text(number)), number = text(number), name = name, items = 0, texts = 0,
    length = 0, stamp = 0, last = 0, latest = 0,
  })
  -- So that its key is there, for the next that looks for a number.
  call('HSET', spaces[i].key, 'f', '')
  return spaces[i]
end

local function find_head(space, key)
  local n = space and call('HGET', space.key, 'k' .. key)
  return n and read_head(call('HGET', space.key, 'h' .. n))
end

local function is_as_expected(put)
  local head = find_head(find_space(put.name), put.key)
  local updated = head and not has_faded(head, now) and head.updated or 0
  return updated == put.expected
end

-- A later write has a later time; times from before a clock went back are passed over.
local function time_of(put, space)
  local time = math.max(base + put.at, latest + 1)
  if space.latest < now + 1000000 then time = math.max(time, space.latest + 1) end
  latest, base = time, math.max(base, time - put.at)
  return time
end

local function keep_version(space, head, since, value)
  local field = version_field(head, head.oldest + head.versions)
  call('HSET', space.key, field, text(since) .. ' ' .. value)
  head.versions = head.versions + 1
end

-- What was found by the old tokens is found by the new ones; those that stay as they are, in a text
-- that is as long as it was, are not touched.
local function move_tokens(space, head, former_length, old, new)
  local counts, block, place = {}, posting_place(head.n)
  for i = 1, #old, 2 do counts[old[i]] = old[i + 1] end
  for i = 1, #new, 2 do
    local token, count = new[i], new[i + 1]
    if counts[token] ~= count or former_length ~= head.length then
      if counts[token] then note_token(space, space.removed, block .. token, place) end
      add_token(space, block, place, token, count, head.length)
    end
    counts[token] = nil
  end
  for token in pairs(counts) do note_token(space, space.removed, block .. token, place) end
end

local function save_put(put)
  local space = find_space(put.name) or new_space(put.name)
  local head, body = find_head(space, put.key), nil
  if head and has_faded(head, now) then
    drop_item(space, head)
    head = nil
  end
  local times = put.times
  local updated = times and times[2] or time_of(put, space)
  if head then
    body = call('HGET', space.key, 'b' .. head.n)
    if not times then
      updated = math.max(updated, head.updated + 1)
      local value = value_of(body)
      if value ~= put.value then
        keep_version(space, head, head.since, value)
        head.since = updated
      end
    end
    count_text(space, head.length, -1)
    move_position(space, head, false)
  else
    space.last, space.items = space.last + 1, space.items + 1
    head = { n = space.last, key = put.key, created = updated, since = updated, oldest = 1, versions = 0 }
    call('HSET', space.key, 'k' .. put.key, head.n)
  end
  if times then
    head.created, head.since = times[1], times[3]
    drop_versions(space, head, 0)
    for i = 1, #put.versions, 2 do keep_version(space, head, put.versions[i], put.versions[i + 1]) end
  end
  drop_versions(space, head, args.keeps or math.huge)
  if updated > space.latest and updated < now + 1000000 or not times then space.latest = updated end
  local former_length = head.length
  head.updated, head.ttl, head.length = updated, put.ttl or false, put.length
  head.expires = put.ttl and math.floor(now + put.ttl * 60000000) or 0
  head.position, head.session, head.asks = put.position or false, put.session or false, put.asks
  head.paths = put.paths or false
  move_tokens(space, head, former_length, body and tokens_of(body) or {}, cmsgpack.unpack(put.tokens))
  call('HSET', space.key, 'h' .. head.n, pack_head(head), 'b' .. head.n,
    #put.value .. ' ' .. put.value .. put.tokens)
  call('ZADD', space.key .. ':o', text(updated), head.n)
  set_deadline(space, head)
  if put.vectors then
    call('HSET', space.key .. ':x', head.n, put.vectors)
  else
    call('HDEL', space.key .. ':x', head.n)
  end
  count_text(space, head.length, 1)
  move_position(space, head, true)
end

local function touch(number, numbers)
  local space = open_space(number)
  for _, head in ipairs(space and get_fields(space.key, 'h', numbers) or {}) do
    head = head and read_head(head)
    if head and head.expires > now then
      head.expires = math.floor(now + head.ttl * 60000000)
      call('HSET', space.key, 'h' .. head.n, pack_head(head))
      set_deadline(space, head)
    end
  end
end

if args.token then
  local first = cmsgpack.unpack(ARGV[1 + args.expecting[1]])
  local space = find_space(first.name)
  local done = space and call('HGET', space.key, 'd') or ''
  for from = 1, #done, TOKEN do
    -- The answer was lost, and the script repeated.
    if string.sub(done, from, from + TOKEN - 1) == args.token then return { 1, text(base) } end
  end
  for _, i in ipairs(args.expecting) do
    if not is_as_expected(cmsgpack.unpack(ARGV[1 + i])) then return { 0, text(base) } end
  end
end
for _, group in ipairs(args.touched) do touch(group[1], group[2]) end
for _, drop in ipairs(args.drops) do
  local space = find_space(drop[1])
  local head = find_head(space, drop[2])
  if head then drop_item(space, head) end
end
for i = 2, #ARGV do save_put(cmsgpack.unpack(ARGV[i])) end
for _, space in pairs(spaces) do
  if space then settle_space(space, args.stamp) end
end
if args.token then
  local space = find_space(cmsgpack.unpack(ARGV[1 + args.expecting[1]]).name)
  local done = (call('HGET', space.key, 'd') or '') .. args.token
  call('HSET', space.key, 'd', string.sub(done, -TOKENS * TOKEN))
end
return { 1, text(base) }
