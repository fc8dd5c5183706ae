-- Records the schema version and makes the database's own key, once.
-- KEYS: the meta hash.
-- ARGV: 1 the version this package knows, 2 a random key, 3 1 to make what is missing, 0 to look.
-- Gives {version, key}, nothing in the place of what isn't there; a newer version stays as it is.
local key = KEYS[1]
if ARGV[3] == '1' then
  if tonumber(call('HGET', key, 'version') or '0') < tonumber(ARGV[1]) then
    call('HSET', key, 'version', ARGV[1])
  end
  call('HSETNX', key, 'mark_key', ARGV[2])
end
return call('HMGET', key, 'version', 'mark_key')
