-- What SQLite does for items. `:now` is the database's clock plus the backend's offset, in seconds,
-- the same in all statements of a script. A namespace is one text, so that those under a prefix are
-- a range of it: `:low` to `:high`, exclusive. Lists come as JSON. The tokens of an item are words of
-- its text and, with no occurrences, terms of its fields.

-- name: read_items
select i.item_id, n.namespace, i.key, i.value, i.created_at, i.updated_at, i.ttl_minutes is not null
from {schema}.sessionmem_namespaces n join {schema}.sessionmem_items i on i.ns = n.ns
where n.namespace = :namespace and i.key = :key
  and (i.expires_at is null or i.expires_at > :now)

-- name: read_items_by_id
select i.item_id, n.namespace, i.key, i.value, i.created_at, i.updated_at, i.ttl_minutes is not null
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in (select value from json_each(:item_ids))
  and (i.expires_at is null or i.expires_at > :now)

-- name: scan_items
-- A page. The ids are put in order first, so that no value is moved only to be sorted.
select i.item_id, n.namespace, i.key, i.value, i.created_at, i.updated_at, i.ttl_minutes is not null
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in (
  select p.item_id
  from {schema}.sessionmem_namespaces m join {schema}.sessionmem_items p on p.ns = m.ns
  where m.namespace >= :low and m.namespace < :high
    and (p.expires_at is null or p.expires_at > :now)
    and (:after_updated_at is null or p.updated_at <= :after_updated_at)
    and (:after_updated_at is null or (-p.updated_at, m.namespace, p.key)
      > (-:after_updated_at, :after_namespace, :after_key))
  order by p.updated_at desc, m.namespace, p.key limit :limit
)
order by i.updated_at desc, n.namespace, i.key

-- name: scan_items_with
-- A page of the items that have all of the terms.
select i.item_id, n.namespace, i.key, i.value, i.created_at, i.updated_at, i.ttl_minutes is not null
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in (
  select p.item_id
  from {schema}.sessionmem_namespaces m join {schema}.sessionmem_postings p on p.ns = m.ns
  where m.namespace >= :low and m.namespace < :high
    and p.token in (select value from json_each(:terms))
  group by p.item_id having count(*) = json_array_length(:terms)
)
  and (i.expires_at is null or i.expires_at > :now)
  and (:after_updated_at is null or (-i.updated_at, n.namespace, i.key)
    > (-:after_updated_at, :after_namespace, :after_key))
order by i.updated_at desc, n.namespace, i.key limit :limit

-- name: scan_namespaces
select n.namespace from {schema}.sessionmem_namespaces n
where n.namespace >= :low and n.namespace < :high
  and (:after is null or n.namespace > :after)
  and exists (
    select 1 from {schema}.sessionmem_items i
    where i.ns = n.ns and (i.expires_at is null or i.expires_at > :now)
  )
order by n.namespace limit :limit

-- name: read_scope
-- How many items under a prefix have a text, and the tokens of all of their texts.
select count(*), coalesce(sum(i.length), 0)
from {schema}.sessionmem_namespaces n join {schema}.sessionmem_items i on i.ns = n.ns
where n.namespace >= :low and n.namespace < :high
  and (i.expires_at is null or i.expires_at > :now) and i.length > 0

-- name: read_frequencies
-- In how many items under a prefix a token occurs. The few that are expired are listed only once.
select :token, count(*)
from {schema}.sessionmem_namespaces n join {schema}.sessionmem_postings p on p.ns = n.ns
where n.namespace >= :low and n.namespace < :high and p.token = :token
  and p.item_id not in (select item_id from {schema}.sessionmem_items where expires_at <= :now)

-- name: search_postings
select p.token, p.item_id, p.occurrences
from {schema}.sessionmem_namespaces n join {schema}.sessionmem_postings p on p.ns = n.ns
where n.namespace >= :low and n.namespace < :high and p.token = :token
  and p.item_id not in (select item_id from {schema}.sessionmem_items where expires_at <= :now)

-- name: search_postings_among
-- The plus keeps it on the token: going by the items would read all of their tokens.
select p.token, p.item_id, p.occurrences
from {schema}.sessionmem_namespaces n join {schema}.sessionmem_postings p on p.ns = n.ns
where n.namespace >= :low and n.namespace < :high and p.token = :token
  and +p.item_id in (select value from json_each(:item_ids))

-- name: read_candidates
select i.item_id, n.namespace, i.key, i.updated_at, i.length, i.position, i.session, i.asks
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in (select value from json_each(:item_ids))
  and (i.expires_at is null or i.expires_at > :now)

-- name: read_neighbours
-- Each once, and none of those that are known already.
select i.item_id, n.namespace, i.key, i.updated_at, i.length, i.position, i.session, i.asks
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in (
  select s.item_id
  from json_each(:item_ids) w
  join {schema}.sessionmem_items t on t.item_id = w.value
  join {schema}.sessionmem_items s
    on s.ns = t.ns and s.position >= t.position - :distance and s.position <= t.position + :distance
  where s.item_id not in (select value from json_each(:known))
)
  and (i.expires_at is null or i.expires_at > :now)

-- name: scan_embedded
select i.item_id, n.namespace, i.key, i.updated_at, i.length, i.position, i.session, i.asks
from {schema}.sessionmem_namespaces n join {schema}.sessionmem_items i on i.ns = n.ns
where n.namespace >= :low and n.namespace < :high
  and (i.expires_at is null or i.expires_at > :now)
  and exists (select 1 from {schema}.sessionmem_vectors v where v.item_id = i.item_id)

-- name: scan_vectors
select v.item_id, v.digest, v.vector
from {schema}.sessionmem_namespaces n
join {schema}.sessionmem_items i on i.ns = n.ns
join {schema}.sessionmem_vectors v on v.item_id = i.item_id
where n.namespace >= :low and n.namespace < :high
  and (i.expires_at is null or i.expires_at > :now)

-- name: read_vectors
select v.item_id, v.digest, v.vector
from {schema}.sessionmem_namespaces n
join {schema}.sessionmem_items i on i.ns = n.ns
join {schema}.sessionmem_vectors v on v.item_id = i.item_id
where n.namespace = :namespace and i.key = :key
  and (i.expires_at is null or i.expires_at > :now)

-- name: save_namespace
insert into {schema}.sessionmem_namespaces (namespace) select :namespace
where not exists (select 1 from {schema}.sessionmem_namespaces where namespace = :namespace)

-- name: save_item
-- A later write has a later time, however coarse the clock; only times that are more than a second
-- ahead, from before the clock went back, are passed over. An expired item was not there.
insert into {schema}.sessionmem_items (
  ns, key, value, created_at, updated_at, ttl_minutes, expires_at, tokens, length, position,
  session, asks
)
select n.ns, :key, :value, t.time, t.time, :ttl_minutes, :now + 60 * :ttl_minutes, :tokens,
  :length, :position, :session, :asks
from {schema}.sessionmem_namespaces n, (
  select max(cast(:now * 1000000 as integer), 1 + coalesce(max(updated_at), 0)) as time
  from {schema}.sessionmem_items where updated_at < cast(:now * 1000000 as integer) + 1000000
) t
where n.namespace = :namespace
on conflict (ns, key) do update set
  value = excluded.value,
  created_at = case when sessionmem_items.expires_at <= :now then excluded.created_at
    else sessionmem_items.created_at end,
  updated_at = max(excluded.updated_at, sessionmem_items.updated_at + 1),
  ttl_minutes = excluded.ttl_minutes,
  expires_at = excluded.expires_at,
  tokens = excluded.tokens,
  length = excluded.length,
  position = excluded.position,
  session = excluded.session,
  asks = excluded.asks

-- name: save_postings
insert into {schema}.sessionmem_postings (ns, token, item_id, occurrences)
select i.ns, t.key, i.item_id, t.value
from {schema}.sessionmem_namespaces n
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = :key
join json_each(i.tokens) t
where n.namespace = :namespace

-- name: save_vector
insert into {schema}.sessionmem_vectors (item_id, digest, vector)
select i.item_id, :digest, :vector
from {schema}.sessionmem_namespaces n
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = :key
where n.namespace = :namespace

-- name: touch_item
-- An expired item is not renewed.
update {schema}.sessionmem_items set expires_at = :now + 60 * ttl_minutes
where item_id = :item_id and expires_at > :now

-- name: forget_postings
-- By the tokens that the item was saved with: they are the key, and need no index of their own.
delete from {schema}.sessionmem_postings
where ns = (select ns from {schema}.sessionmem_namespaces where namespace = :namespace)
  and item_id = (
    select i.item_id
    from {schema}.sessionmem_namespaces n join {schema}.sessionmem_items i on i.ns = n.ns
    where n.namespace = :namespace and i.key = :key
  )
  and token in (
    select t.key
    from {schema}.sessionmem_namespaces n
    join {schema}.sessionmem_items i on i.ns = n.ns and i.key = :key
    join json_each(i.tokens) t
    where n.namespace = :namespace
  )

-- name: forget_vectors
delete from {schema}.sessionmem_vectors where item_id = (
  select i.item_id
  from {schema}.sessionmem_namespaces n join {schema}.sessionmem_items i on i.ns = n.ns
  where n.namespace = :namespace and i.key = :key
)

-- name: drop_item
delete from {schema}.sessionmem_items where key = :key
  and ns = (select ns from {schema}.sessionmem_namespaces where namespace = :namespace)

-- name: drop_empty_namespaces
-- A namespace may name a person: it goes with its last item.
delete from {schema}.sessionmem_namespaces
where namespace >= :low and namespace < :high
  and not exists (
    select 1 from {schema}.sessionmem_items i where i.ns = sessionmem_namespaces.ns
  )

-- name: drop_postings_under
delete from {schema}.sessionmem_postings where ns in (
  select ns from {schema}.sessionmem_namespaces where namespace >= :low and namespace < :high
)

-- name: drop_vectors_under
delete from {schema}.sessionmem_vectors where item_id in (
  select i.item_id
  from {schema}.sessionmem_namespaces n join {schema}.sessionmem_items i on i.ns = n.ns
  where n.namespace >= :low and n.namespace < :high
)

-- name: drop_items_under
delete from {schema}.sessionmem_items where ns in (
  select ns from {schema}.sessionmem_namespaces where namespace >= :low and namespace < :high
)
returning expires_at is null or expires_at > :now

-- name: scan_expired_items
select item_id from {schema}.sessionmem_items where expires_at <= :now
order by expires_at, item_id limit :limit

-- name: drop_expired_postings
-- One item a row, if nobody has put it again meanwhile.
delete from {schema}.sessionmem_postings
where ns = (
    select ns from {schema}.sessionmem_items where item_id = :item_id and expires_at <= :now
  )
  and item_id = :item_id
  and token in (
    select t.key from {schema}.sessionmem_items i join json_each(i.tokens) t
    where i.item_id = :item_id
  )

-- name: drop_expired_vectors
delete from {schema}.sessionmem_vectors where item_id = (
  select item_id from {schema}.sessionmem_items where item_id = :item_id and expires_at <= :now
)

-- name: drop_expired_item
delete from {schema}.sessionmem_items where item_id = :item_id and expires_at <= :now
