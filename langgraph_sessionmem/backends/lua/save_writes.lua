-- Stores a task's writes, whether or not their checkpoint is stored; twice is as once.
-- args: id, mark, generation (nil for unknown), new_generation, place, interrupts;
--   rows {task, idx, msgpack of path, channel and body}.
-- Gives {outcome, generation}.
local key, bucket, now = KEYS[1], open_bucket(), clock()
local place = args.place
local facts = open_thread(key, args.id)
local attached = facts.known and call('HEXISTS', key, 'c' .. place) == 1

if facts.known and has_expired(facts, now) then
  if is_aged(facts, now) and (args.generation or attached) then return { 'expired', '0' } end
  drop_life(facts, bucket) -- these writes belong to the life that follows
  attached = false
elseif not facts.known and args.generation and has_mark(bucket, AGED, AGED_MS, now) then
  return { 'expired', '0' }
end
if args.generation and facts.generation ~= args.generation then
  if facts.known or has_tombstone(bucket, now) then return { 'deleted', '0' } end
end
if facts.generation == 0 then facts.generation = args.new_generation end

-- An anchor has all the writes that its descendants are rebuilt from.
if attached and facts.anchors > 0 and string.sub(call('HGET', key, 'c' .. place), 1, 1) == '-' then
  return { 'saved', text(facts.generation) }
end

local chunks, found = write_chunks(facts, place), {}
for number, chunk in ipairs(chunks) do
  for row, first, last in each_write(chunk) do found[row] = { number, first, last } end
end
local changed = {}
for _, given in ipairs(args.rows) do
  local task, idx = given[1], given[2]
  local head = #task .. ' ' .. idx .. ' ' .. #given[3] .. ' ' .. text(facts.saves) .. ' '
  local row = head .. task .. given[3]
  local place_found = found[idx .. ' ' .. task]
  if not place_found then
    if #chunks == 0 or #chunks[#chunks] >= CHUNK_BYTES then chunks[#chunks + 1] = '' end
    chunks[#chunks] = chunks[#chunks] .. row
    changed[#chunks] = true
  elseif idx < 0 then
    local number, first, last = unpack(place_found)
    local chunk = chunks[number]
    chunks[number] = string.sub(chunk, 1, first - 1) .. row .. string.sub(chunk, last + 1)
    changed[number] = true
    local grown = #row - (last - first + 1)
    for _, other in pairs(found) do
      if other[1] == number and other[2] > first then
        other[2], other[3] = other[2] + grown, other[3] + grown
      end
    end
    place_found[3] = last + grown
  end
end
for number in pairs(changed) do
  set_field(facts, write_field(place, number), chunks[number])
end

if #args.rows > 0 and not attached then
  local entries, is_new = read_entries(facts.early), true
  for _, entry in ipairs(entries) do is_new = is_new and entry[2] ~= place end
  if is_new then entries[#entries + 1] = { now + EARLY_MS, place } end
  facts.early = pack_entries(entries)
end
if facts.known then
  if args.interrupts then facts.waiting = 1 end
  -- What an idle thread hides must not come back, and it is the same once it was cut down.
  local rests = facts.keeps == 1 and (facts.idle_until == 0 or is_idle(facts, now))
  if not rests and (args.interrupts or is_past(facts.idle_until, now + 30000)) then
    renew(facts, now)
  end
end
settle(facts, bucket, now)
return { 'saved', text(facts.generation) }
