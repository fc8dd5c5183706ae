-- How many entries of a bucket wait for the sweeper.
local bucket, now = open_bucket(), text(clock())
local count = 0
for _, key in ipairs({ bucket.due, bucket.tombstones, bucket.marks }) do
  count = count + call('ZCOUNT', key, '-inf', now)
end
return count
