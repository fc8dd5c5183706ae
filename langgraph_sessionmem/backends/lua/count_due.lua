-- How many entries of a bucket wait for the sweeper.
-- KEYS: the bucket's deadlines, its tombstones.
-- ARGV: 1 offset (ms).
local now = text(clock(ARGV[1]))
return call('ZCOUNT', KEYS[1], '-inf', now) + call('ZCOUNT', KEYS[2], '-inf', now)
