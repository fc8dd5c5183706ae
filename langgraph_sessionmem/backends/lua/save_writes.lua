-- Stores a task's writes, whether or not their checkpoint is stored; twice is as once.
-- KEYS: the thread, the bucket's ids, its deadlines, its tombstones.
-- ARGV: 1 offset (ms), 2 thread id, 3 its mark, 4 generation ('' for unknown), 5 a new generation,
--   6 the checkpoint's place, 7 interrupts (0 or 1); then task, idx, body of each row.
-- Gives {outcome, generation}.
local key, ids, due, tombstones = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local offset, now = tonumber(ARGV[1]), clock(ARGV[1])
local mark, generation, place, interrupts = ARGV[3], ARGV[4], ARGV[6], ARGV[7]
local facts = load_thread(key, ARGV[2])
local attached = facts.known and call('HEXISTS', key, 'c' .. place) == 1

if facts.known and generation == '' and not attached and has_expired(facts, now) then
  drop_life(facts) -- these writes belong to the life that follows
end
if facts.known and is_past(facts.ends_at, now) then return { 'expired', '0' } end
if generation ~= '' and facts.generation ~= generation then
  if facts.known or has_tombstone(tombstones, mark, now) then return { 'deleted', '0' } end
end
if facts.generation == '' then facts.generation = ARGV[5] end

local chunks, found = write_chunks(facts, place), {}
for number, chunk in ipairs(chunks) do
  local i = 1
  while i <= #chunk do
    local _, stop, task_size, idx, size = string.find(chunk, '^(%d+) (-?%d+) (%d+) ', i)
    local task = string.sub(chunk, stop + 1, stop + task_size)
    local last = stop + task_size + size
    found[idx .. ' ' .. task] = { number, i, last }
    i = last + 1
  end
end
local changed = {}
for i = 8, #ARGV, 3 do
  local task, idx = ARGV[i], ARGV[i + 1]
  local row = #task .. ' ' .. idx .. ' ' .. #ARGV[i + 2] .. ' ' .. task .. ARGV[i + 2]
  local place_found = found[idx .. ' ' .. task]
  if not place_found then
    if #chunks == 0 or #chunks[#chunks] >= CHUNK_BYTES then chunks[#chunks + 1] = '' end
    chunks[#chunks] = chunks[#chunks] .. row
    changed[#chunks] = true
  elseif tonumber(idx) < 0 then
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

if #ARGV >= 8 and not attached then
  local entries, is_new = early_writes(facts), true
  for _, entry in ipairs(entries) do is_new = is_new and entry[2] ~= place end
  if is_new then entries[#entries + 1] = { now + EARLY_MS, place } end
  set_early(facts, entries)
end
if facts.known then
  if interrupts == '1' then facts.waiting = '1' end
  if interrupts == '1' or is_past(facts.idle_until, now + 30000) then renew(facts, now) end
end
settle(facts, ids, due, offset, now)
return { 'saved', facts.generation }
