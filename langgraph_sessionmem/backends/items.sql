-- What SQLite and PostgreSQL read of items, and parts that saving uses too; `postgres_items.sql` has
-- what PostgreSQL says differently. `:now` is the database's clock plus the backend's offset, in
-- seconds, the same in all statements of a script. A namespace is one text, so that those of a scope
-- are a range: `:low` to `:high`, exclusive. Lists come as JSON. The tokens of an item are words of its
-- text and, with no occurrences, terms of its fields.

-- part: visible
(i.expires_at is null or i.expires_at > :now)

-- part: tokens
(select value as token from json_each(:tokens)) t

-- part: columns
group_concat(p.item_id), group_concat(p.occurrences), group_concat(p.length)

-- part: item_ids
select value from json_each(:item_ids)

-- part: known
select value from json_each(:known)

-- part: terms
select value from json_each(:terms)

-- part: named
-- The keys that a save names. What is there under them goes, unless `stays` is 1.
(
  select json_extract(value, '$[0]') as namespace, json_extract(value, '$[1]') as key,
    json_extract(value, '$[2]') as stays, json_extract(value, '$[3]') as expected
  from json_each(:named)
) r

-- part: asked
-- The items of these keys.
{named}
cross join {schema}.sessionmem_namespaces n on n.namespace = r.namespace
cross join {schema}.sessionmem_items i on i.ns = n.ns and i.key = r.key

-- name: read_items
select i.item_id, n.namespace, i.key, i.value, i.created_at, i.updated_at, i.ttl_minutes, i.paths
from {asked}
where {visible}

-- name: read_items_by_id
select i.item_id, n.namespace, i.key, i.value, i.created_at, i.updated_at, i.ttl_minutes, i.paths
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in ({item_ids}) and {visible}

-- part: newest_of
from {schema}.sessionmem_items i
where i.ns = m.ns and {visible}
  and i.updated_at <= coalesce(cast(:after_updated_at as bigint), 9223372036854775807)
  and (cast(:after_updated_at as bigint) is null or i.updated_at < :after_updated_at
    or (m.namespace, i.key) > (:after_namespace, :after_key))
order by i.updated_at desc, i.key limit :limit

-- part: newest
-- The latest of each namespace, so that no more is put in order.
{schema}.sessionmem_namespaces m
cross join {schema}.sessionmem_items p on p.item_id in (select i.item_id {newest_of})

-- name: scan_items
-- A page. The ids are put in order first, so that no value is moved only to be sorted.
select i.item_id, n.namespace, i.key, i.value, i.created_at, i.updated_at, i.ttl_minutes, i.paths
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in (
  select p.item_id from {newest} where m.namespace >= :low and m.namespace < :high
  order by p.updated_at desc, m.namespace, p.key limit :limit
)
order by i.updated_at desc, n.namespace, i.key

-- name: scan_items_with
-- A page of the items that have all of the terms.
select i.item_id, n.namespace, i.key, i.value, i.created_at, i.updated_at, i.ttl_minutes, i.paths
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in (
  select i.item_id
  from {schema}.sessionmem_namespaces m join {schema}.sessionmem_items i on i.ns = m.ns
  where i.item_id in (
    select p.item_id
    from {schema}.sessionmem_namespaces s join {schema}.sessionmem_postings p on p.ns = s.ns
    where s.namespace >= :low and s.namespace < :high and p.token in ({terms})
    group by p.item_id having count(*) = :count
  )
    and {visible}
    and (cast(:after_updated_at as bigint) is null or (-i.updated_at, m.namespace, i.key)
      > (-cast(:after_updated_at as bigint), :after_namespace, :after_key))
  order by i.updated_at desc, m.namespace, i.key limit :limit
)
order by i.updated_at desc, n.namespace, i.key

-- name: read_versions
-- The present value since when it is that, and what is kept of the former ones.
select v.value, v.since
from (
  select i.value, i.since, 0 as place from {asked} where {visible}
  union all
  select v.value, v.since, 1
  from {asked} join {schema}.sessionmem_versions v on v.item_id = i.item_id
  where {visible}
) v
order by v.place, v.since desc

-- name: scan_namespaces
select n.namespace from {schema}.sessionmem_namespaces n
where n.namespace >= :low and n.namespace < :high
  and (cast(:after as text) is null or n.namespace > :after)
  and exists (select 1 from {schema}.sessionmem_items i where i.ns = n.ns and {visible})
order by n.namespace limit :limit

-- part: expired_of
-- The few of namespaces s that have expired and are not deleted yet.
select i.item_id, i.length from {schema}.sessionmem_items i
where i.ns in (select ns from s) and i.expires_at <= :now

-- name: read_scope
-- The statistics of the texts of a scope, how many of its namespaces have turns, and in how many
-- texts each token occurs.
with s as (
  select ns, texts, length, stamp from {schema}.sessionmem_namespaces
  where namespace >= :low and namespace < :high
), e as (
  {expired_of}
)
select null as token,
  (select coalesce(sum(texts), 0) from s) - (select count(*) from e where length > 0),
  (select coalesce(sum(length), 0) from s) - (select coalesce(sum(length), 0) from e),
  (select coalesce(sum(stamp), 0) from s),
  (select count(*) from s where exists (
    select 1 from {schema}.sessionmem_items i where i.ns = s.ns and i.position is not null
  ))
union all
select t.token, (
  select sum((
    select count(*) from {schema}.sessionmem_postings p
    where p.ns = s.ns and p.token = t.token and p.item_id not in (select item_id from e)
  )) from s
), 0, 0, 0
from {tokens}

-- part: hits
{tokens} cross join s cross join {schema}.sessionmem_postings p
where p.ns = s.ns and p.token = t.token and p.item_id not in (select item_id from e)

-- name: search_postings
with s as (
  select ns from {schema}.sessionmem_namespaces where namespace >= :low and namespace < :high
), e as (
  {expired_of}
)
select p.token, {columns} from {hits} group by p.token

-- name: search_postings_among
-- `is true` keeps it on the token: going by the items would read all of their tokens.
with s as (
  select ns from {schema}.sessionmem_namespaces where namespace >= :low and namespace < :high
), e as (
  {expired_of}
)
select p.token, {columns} from {hits} and (p.item_id in ({item_ids})) is true group by p.token

-- name: read_candidates
select i.item_id, n.namespace, i.key, i.updated_at, i.length, i.position, i.session, i.asks
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in ({item_ids}) and {visible}

-- name: read_neighbours
-- Each once, and none of those that are known already.
select i.item_id, n.namespace, i.key, i.updated_at, i.length, i.position, i.session, i.asks
from {schema}.sessionmem_items i join {schema}.sessionmem_namespaces n on n.ns = i.ns
where i.item_id in (
  select s.item_id
  from {schema}.sessionmem_items t
  join {schema}.sessionmem_items s
    on s.ns = t.ns and s.position >= t.position - :distance and s.position <= t.position + :distance
  where t.item_id in ({item_ids}) and s.item_id not in ({known})
)
  and {visible}

-- name: scan_vectors
select v.item_id, v.digest, v.vector
from {schema}.sessionmem_namespaces n
join {schema}.sessionmem_items i on i.ns = n.ns
join {schema}.sessionmem_vectors v on v.item_id = i.item_id
where n.namespace >= :low and n.namespace < :high

-- name: read_vectors
select v.item_id, v.digest, v.vector
from {asked}
join {schema}.sessionmem_vectors v on v.item_id = i.item_id
where {visible}
