-- How SQLite and PostgreSQL save and delete items; the parts of `items.sql` are known here.
--
-- Whoever changes items holds the rows of their namespaces first, in their order, by a stamp of its
-- own, and goes by that stamp from then on. Only renewals don't; they leave out what others hold.

-- part: names
select value from json_each(:names)

-- part: emptied
select value from json_each(:emptied)

-- part: held
-- Those that a save names, if it still holds their namespaces.
{named}
cross join {schema}.sessionmem_namespaces n on n.namespace = r.namespace and n.stamp = :stamp
cross join {schema}.sessionmem_items i on i.ns = n.ns and i.key = r.key

-- part: tokens_of
cross join json_each(i.tokens) t

-- part: time
-- A later save has a later time, however coarse the clock; only times that are more than a second
-- ahead, from before the clock went back, are passed over. `:last` items come before it, a
-- microsecond apart.
(
  select max(cast(:now * 1000000 as bigint), 1 + :last + coalesce(max(saved_at), 0)) as time
  from {schema}.sessionmem_namespaces
  where saved_at < cast(:now * 1000000 as bigint) + 1000000
)

-- part: later
max(excluded.updated_at, sessionmem_items.updated_at + 1)

-- part: replaced
-- What an item becomes that is put again.
updated_at = {later},
since = case when sessionmem_items.value = excluded.value then sessionmem_items.since
  else {later} end,
ttl_minutes = excluded.ttl_minutes,
expires_at = excluded.expires_at,
length = excluded.length,
position = excluded.position,
session = excluded.session,
asks = excluded.asks,
paths = excluded.paths,
tokens = excluded.tokens,
value = excluded.value

-- name: hold_namespaces
-- A namespace may be new, and be empty at the end.
insert into {schema}.sessionmem_namespaces (namespace, texts, length, stamp, saved_at)
select r.value, 0, 0, :stamp, t.time from json_each(:names) r cross join {time} t where true
on conflict (namespace) do update set stamp = excluded.stamp, saved_at = excluded.saved_at

-- name: refuse_unexpected
-- Lets go of all namespaces if an item is not as it is expected: what follows changes nothing.
update {schema}.sessionmem_namespaces set stamp = :refused
where namespace in ({names}) and stamp = :stamp and exists (
  select 1
  from {named}
  left join {schema}.sessionmem_namespaces n on n.namespace = r.namespace
  left join {schema}.sessionmem_items i on i.ns = n.ns and i.key = r.key and {visible}
  where coalesce(i.updated_at, 0) <> r.expected
)

-- part: texts_of_held
select i.ns, count(*) as texts, sum(i.length) as length from {held} where i.length > 0 group by i.ns

-- name: uncount_texts
update {schema}.sessionmem_namespaces set
  texts = sessionmem_namespaces.texts - h.texts, length = sessionmem_namespaces.length - h.length
from ({texts_of_held}) h where h.ns = sessionmem_namespaces.ns

-- name: forget_postings
-- By the tokens that the item was saved with: they are the key, and need no index of their own.
delete from {schema}.sessionmem_postings
where (ns, token, item_id) in (select i.ns, t.key, i.item_id from {held} {tokens_of})

-- name: forget_vectors
delete from {schema}.sessionmem_vectors where item_id in (select i.item_id from {held})

-- name: forget_versions
delete from {schema}.sessionmem_versions where item_id in (
  select i.item_id from {held} where r.stays = 0 or i.expires_at <= :now
)

-- name: forget_items
-- What has expired was not there.
delete from {schema}.sessionmem_items where item_id in (
  select i.item_id from {held} where r.stays = 0 or i.expires_at <= :now
)

-- name: keep_version
-- What an item was until now, if it becomes another.
insert into {schema}.sessionmem_versions (item_id, since, value)
select i.item_id, i.since, i.value
from {schema}.sessionmem_namespaces n
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = :key
where n.namespace = :namespace and n.stamp = :stamp and i.value <> :body
on conflict (item_id, since) do nothing

-- name: save_item
insert into {schema}.sessionmem_items (
  ns, key, created_at, updated_at, since, ttl_minutes, expires_at, length, position, session, asks,
  paths, tokens, value
)
select n.ns, :key, coalesce(:created_at, n.saved_at - :before),
  coalesce(:updated_at, n.saved_at - :before),
  coalesce(:since, n.saved_at - :before), :ttl_minutes, :now + 60 * :ttl_minutes, :length,
  :position, :session, :asks, :paths, :tokens, :body
from {schema}.sessionmem_namespaces n where n.namespace = :namespace and n.stamp = :stamp
on conflict (ns, key) do update set
  {replaced}

-- name: save_version
-- What an item was, where it comes from.
insert into {schema}.sessionmem_versions (item_id, since, value)
select i.item_id, :version_since, :version_value
from {schema}.sessionmem_namespaces n
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = :version_key
where n.namespace = :version_namespace and n.stamp = :stamp
on conflict (item_id, since) do nothing

-- name: cut_versions
delete from {schema}.sessionmem_versions where (item_id, since) in (
  select p.item_id, p.since
  from (
    select v.item_id, v.since,
      row_number() over (partition by v.item_id order by v.since desc) as place
    from {held} join {schema}.sessionmem_versions v on v.item_id = i.item_id
  ) p
  where p.place > :keeps
)

-- name: save_postings
insert into {schema}.sessionmem_postings (ns, token, item_id, occurrences, length)
select i.ns, t.key, i.item_id, cast(t.value as integer), i.length from {held} {tokens_of}

-- name: save_vector
insert into {schema}.sessionmem_vectors (item_id, digest, vector)
select i.item_id, :digest, :vector
from {schema}.sessionmem_namespaces n
join {schema}.sessionmem_items i on i.ns = n.ns and i.key = :vector_key
where n.namespace = :vector_namespace and n.stamp = :stamp

-- name: count_texts
update {schema}.sessionmem_namespaces set
  texts = sessionmem_namespaces.texts + h.texts, length = sessionmem_namespaces.length + h.length
from ({texts_of_held}) h where h.ns = sessionmem_namespaces.ns

-- part: settled
(cast(:first as text) is null or exists (
  select 1 from {schema}.sessionmem_namespaces f where f.namespace = :first and f.stamp = :stamp
))

-- name: touch_items
-- An expired item is not renewed, and none by a save that is refused.
update {schema}.sessionmem_items set expires_at = :now + 60 * ttl_minutes
where item_id in ({item_ids}) and expires_at > :now and {settled}

-- name: is_settled
select case when {settled} then 1 else 0 end

-- part: empty_namespaces
from {schema}.sessionmem_namespaces where namespace in ({emptied}) and not exists (
  select 1 from {schema}.sessionmem_items i where i.ns = sessionmem_namespaces.ns
)

-- name: forget_namespaces
-- Those that were made for what is refused.
delete {empty_namespaces}

-- name: drop_empty_namespaces
-- A namespace may name a person: it goes with its last item.
delete {empty_namespaces}

-- part: claimed
select ns from {schema}.sessionmem_namespaces
where namespace >= :low and namespace < :high and stamp = :stamp

-- name: claim_scope
update {schema}.sessionmem_namespaces set stamp = :stamp
where namespace >= :low and namespace < :high

-- name: count_claimed
select count(*) from {schema}.sessionmem_items i where i.ns in ({claimed}) and {visible}

-- name: drop_claimed_postings
delete from {schema}.sessionmem_postings where ns in ({claimed})

-- name: drop_claimed_vectors
delete from {schema}.sessionmem_vectors where item_id in (
  select i.item_id from {schema}.sessionmem_items i where i.ns in ({claimed})
)

-- name: drop_claimed_versions
delete from {schema}.sessionmem_versions where item_id in (
  select i.item_id from {schema}.sessionmem_items i where i.ns in ({claimed})
)

-- name: drop_claimed_items
delete from {schema}.sessionmem_items where ns in ({claimed})

-- name: drop_claimed_namespaces
delete from {schema}.sessionmem_namespaces
where namespace >= :low and namespace < :high and stamp = :stamp

-- part: first_expired
select i.ns from {schema}.sessionmem_items i
where i.expires_at <= :now order by i.expires_at, i.item_id limit :limit

-- name: claim_expired_items
update {schema}.sessionmem_namespaces set stamp = :stamp where ns in ({first_expired})

-- part: expired_items
-- A namespace that is gone is one that this script has dropped.
select i.item_id from {schema}.sessionmem_items i
where i.expires_at <= :now and not exists (
  select 1 from {schema}.sessionmem_namespaces o where o.ns = i.ns and o.stamp <> :stamp
)
order by i.expires_at, i.item_id limit :limit

-- name: uncount_expired
update {schema}.sessionmem_namespaces set
  texts = sessionmem_namespaces.texts - h.texts, length = sessionmem_namespaces.length - h.length
from (
  select x.ns, count(*) as texts, sum(x.length) as length from {schema}.sessionmem_items x
  where x.item_id in ({expired_items}) and x.length > 0 group by x.ns
) h where h.ns = sessionmem_namespaces.ns

-- name: drop_expired_postings
delete from {schema}.sessionmem_postings where (ns, token, item_id) in (
  select i.ns, t.key, i.item_id from {schema}.sessionmem_items i {tokens_of}
  where i.item_id in ({expired_items})
)

-- name: drop_expired_vectors
delete from {schema}.sessionmem_vectors where item_id in ({expired_items})

-- name: drop_expired_versions
delete from {schema}.sessionmem_versions where item_id in ({expired_items})

-- name: drop_expired_namespaces
-- Those that nothing else is in.
delete from {schema}.sessionmem_namespaces
where ns in (select x.ns from {schema}.sessionmem_items x where x.item_id in ({expired_items}))
  and not exists (
    select 1 from {schema}.sessionmem_items y
    where y.ns = sessionmem_namespaces.ns and y.item_id not in ({expired_items})
  )

-- name: drop_expired_items
delete from {schema}.sessionmem_items where item_id in ({expired_items})
returning item_id
