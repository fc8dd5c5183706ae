-- What PostgreSQL says differently for items: lists unpacked, many rows at a time by `unnest`, and
-- row locks, those of namespaces in their order, so that no two wait for each other.

-- part: tokens
json_array_elements_text(cast(:tokens as json)) as t (token)

-- part: columns
string_agg(cast(p.item_id as text), ','), string_agg(cast(p.occurrences as text), ','),
string_agg(cast(p.length as text), ',')

-- part: item_ids
select unnest(cast(translate(:item_ids, '[]', '{}') as bigint[]))

-- part: known
select unnest(cast(translate(:known, '[]', '{}') as bigint[]))

-- part: terms
select j.value from json_array_elements_text(cast(:terms as json)) as j (value)

-- part: names
select j.value from json_array_elements_text(cast(:names as json)) as j (value)

-- part: emptied
select j.value from json_array_elements_text(cast(:emptied as json)) as j (value)

-- part: named
(
  select j.value ->> 0 as namespace, j.value ->> 1 as key,
    cast(j.value ->> 2 as integer) as stays, cast(j.value ->> 3 as bigint) as expected
  from json_array_elements(cast(:named as json)) as j (value)
) r

-- part: asked
{named}
join {schema}.sessionmem_namespaces n on n.namespace = r.namespace
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = r.key

-- part: held
{named}
join {schema}.sessionmem_namespaces n on n.namespace = r.namespace and n.stamp = :stamp
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = r.key

-- part: tokens_of
cross join lateral json_each_text(cast(i.tokens as json)) t

-- part: newest
{schema}.sessionmem_namespaces m
cross join lateral (select i.item_id, i.updated_at, i.key {newest_of}) p

-- part: hits
-- Token by token, by the index: `offset` keeps the planner from another way.
{tokens} cross join s cross join lateral (
  select o.token, o.item_id, o.occurrences, o.length from {schema}.sessionmem_postings o
  where o.ns = s.ns and o.token = t.token offset 0
) p
where p.item_id not in (select item_id from e)

-- part: later
greatest(excluded.updated_at, sessionmem_items.updated_at + 1)

-- name: hold_namespaces
-- A namespace may be new, and be empty at the end. A later save in it has a later time, also if it
-- began first and waited; only times that are more than a second ahead, from before the clock went
-- back, are passed over. `:last` items come before it, a microsecond apart.
insert into {schema}.sessionmem_namespaces (namespace, texts, length, stamp, saved_at)
select r.value, 0, 0, :stamp, cast(:now * 1000000 as bigint)
from json_array_elements_text(cast(:names as json)) as r (value) order by r.value collate "C"
on conflict (namespace) do update set stamp = excluded.stamp, saved_at = greatest(
  excluded.saved_at,
  case when sessionmem_namespaces.saved_at < excluded.saved_at + 1000000
    then sessionmem_namespaces.saved_at + 1 + :last end
)

-- name: keep_version
-- What an item was until now, if it becomes another.
insert into {schema}.sessionmem_versions (item_id, since, value)
select i.item_id, i.since, i.value
from unnest(cast(:namespace as text[]), cast(:key as text[]), cast(:body as bytea[]))
  as p (namespace, key, body)
join {schema}.sessionmem_namespaces n on n.namespace = p.namespace and n.stamp = :stamp
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = p.key
where i.value <> p.body
on conflict (item_id, since) do nothing

-- name: save_item
insert into {schema}.sessionmem_items (
  ns, key, created_at, updated_at, since, ttl_minutes, expires_at, length, position, session, asks,
  paths, tokens, value
)
select n.ns, p.key, coalesce(p.created_at, n.saved_at - p.before),
  coalesce(p.updated_at, n.saved_at - p.before), coalesce(p.since, n.saved_at - p.before),
  p.ttl_minutes, :now + 60 * p.ttl_minutes, p.length, p.position, p.session, p.asks, p.paths,
  p.tokens, p.body
from unnest(
  cast(:namespace as text[]), cast(:key as text[]), cast(:before as bigint[]),
  cast(:created_at as bigint[]), cast(:updated_at as bigint[]), cast(:since as bigint[]),
  cast(:ttl_minutes as double precision[]), cast(:length as integer[]),
  cast(:position as bigint[]), cast(:session as text[]), cast(:asks as integer[]),
  cast(:paths as text[]), cast(:tokens as text[]), cast(:body as bytea[])
) as p (
  namespace, key, before, created_at, updated_at, since, ttl_minutes, length, position, session,
  asks, paths, tokens, body
)
join {schema}.sessionmem_namespaces n on n.namespace = p.namespace and n.stamp = :stamp
on conflict (ns, key) do update set
  {replaced}

-- name: save_version
-- What an item was, where it comes from.
insert into {schema}.sessionmem_versions (item_id, since, value)
select i.item_id, v.since, v.value
from unnest(
  cast(:version_namespace as text[]), cast(:version_key as text[]),
  cast(:version_since as bigint[]), cast(:version_value as bytea[])
) as v (namespace, key, since, value)
join {schema}.sessionmem_namespaces n on n.namespace = v.namespace and n.stamp = :stamp
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = v.key
on conflict (item_id, since) do nothing

-- name: save_vector
insert into {schema}.sessionmem_vectors (item_id, digest, vector)
select i.item_id, v.digest, v.vector
from unnest(
  cast(:vector_namespace as text[]), cast(:vector_key as text[]), cast(:digest as bytea[]),
  cast(:vector as bytea[])
) as v (namespace, key, digest, vector)
join {schema}.sessionmem_namespaces n on n.namespace = v.namespace and n.stamp = :stamp
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = v.key

-- name: touch_items
-- Nobody waits for a renewal, and it waits for nobody: what others hold they renew or delete.
update {schema}.sessionmem_items set expires_at = :now + 60 * ttl_minutes where item_id in (
  select i.item_id from {schema}.sessionmem_items i
  where i.item_id in ({item_ids}) and i.expires_at > :now and {settled}
  for update skip locked
)

-- name: claim_scope
update {schema}.sessionmem_namespaces set stamp = :stamp where ns in (
  select n.ns from {schema}.sessionmem_namespaces n
  where n.namespace >= :low and n.namespace < :high
  order by n.namespace for update
)

-- name: claim_expired_items
update {schema}.sessionmem_namespaces set stamp = :stamp where ns in (
  select n.ns from {schema}.sessionmem_namespaces n
  where n.ns in ({first_expired})
  order by n.namespace for update
)

-- name: forget_postings
-- By the tokens that the item was saved with: they are the key, and need no index of their own.
delete from {schema}.sessionmem_postings o
using (select i.ns, t.key as token, i.item_id from {held} {tokens_of}) h
where o.ns = h.ns and o.token = h.token and o.item_id = h.item_id

-- name: drop_expired_postings
delete from {schema}.sessionmem_postings o
using (
  select i.ns, t.key as token, i.item_id from {schema}.sessionmem_items i {tokens_of}
  where i.item_id in ({expired_items})
) h
where o.ns = h.ns and o.token = h.token and o.item_id = h.item_id
