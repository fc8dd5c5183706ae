-- Reading, for both SQL dialects. A thread is over once a deadline has passed; one that keeps its
-- latest and is only idle shows the latest checkpoint of each namespace, swept or not.

-- name: read_checkpoint
-- The named checkpoint, or the last in order, once for each write.
select s.thread_id, s.thread, c.checkpoint_ns, c.checkpoint_id, c.parent_id,
  coalesce(c.order_id, c.checkpoint_id), c.order_n, c.head, c.metadata, s.refresh_on_read, c.seq,
  c.elder, case when s.idle_until <= :now then 1 else 0 end, w.checkpoint_ns, w.checkpoint_id,
  w.task_id, w.idx, w.task_path, w.channel, w.body, w.seq
from (
  select thread_id, thread, refresh_on_read, keep_latest, idle_until,
    cast(:checkpoint_ns as text) as checkpoint_ns
  from {schema}.sessionmem_threads
  where thread_id = :thread_id and (ends_at is null or ends_at > :now)
    and (idle_until is null or idle_until > :now or keep_latest = 1)
) s
join {schema}.sessionmem_checkpoints c on c.thread = s.thread and c.checkpoint_ns = s.checkpoint_ns
  and c.checkpoint_id = coalesce(cast(:checkpoint_id as text), {latest})
left join {schema}.sessionmem_writes w on w.thread = c.thread
  and w.checkpoint_ns = c.checkpoint_ns and w.checkpoint_id = c.checkpoint_id
where s.idle_until is null or s.idle_until > :now or c.checkpoint_id = {latest}

-- name: read_elements
-- One run of a log, to the end of the block that its last element lies in.
select log, position, body from {schema}.sessionmem_elements
where thread = :generation and log = :log and position >= :start and position <= coalesce((
  select min(e.position) from {schema}.sessionmem_elements e
  where e.thread = :generation and e.log = :log and e.position >= :stop - 1
), :stop - 1)

-- name: read_places
select log, position, length(body) from {schema}.sessionmem_elements where thread = :generation

-- name: read_orders
-- Where checkpoints of one id stand, in every namespace.
select s.checkpoint_ns, s.checkpoint_id, coalesce(s.order_id, s.checkpoint_id), s.order_n
from {schema}.sessionmem_checkpoints s
join {schema}.sessionmem_threads t on t.thread = s.thread
where t.thread_id = :thread_id and s.checkpoint_id = :checkpoint_id and s.order_n >= 0
  and (t.ends_at is null or t.ends_at > :now)
  and (t.idle_until is null or t.idle_until > :now or (
    t.keep_latest = 1 and s.checkpoint_id = {latest}
  ))

-- name: read_ancestors
-- A checkpoint and what it came from, itself first.
with recursive ancestors (
  depth, thread_id, thread, refresh_on_read, idle, checkpoint_ns, checkpoint_id, parent_id, order_id,
  order_n, head, metadata, seq, elder
) as (
  select 0, s.thread_id, s.thread, s.refresh_on_read, s.idle, c.checkpoint_ns, c.checkpoint_id,
    c.parent_id, c.order_id, c.order_n, c.head, c.metadata, c.seq, c.elder
  from (
    select thread_id, thread, refresh_on_read, case when idle_until <= :now then 1 else 0 end as idle,
      cast(:checkpoint_ns as text) as checkpoint_ns
    from {schema}.sessionmem_threads
    where thread_id = :thread_id and (ends_at is null or ends_at > :now)
      and (idle_until is null or idle_until > :now or keep_latest = 1)
  ) s
  join {schema}.sessionmem_checkpoints c on c.thread = s.thread
    and c.checkpoint_ns = s.checkpoint_ns
    and c.checkpoint_id = coalesce(cast(:checkpoint_id as text), {latest})
  union all
  select a.depth + 1, a.thread_id, a.thread, a.refresh_on_read, a.idle, c.checkpoint_ns,
    c.checkpoint_id, c.parent_id, c.order_id, c.order_n, c.head, c.metadata, c.seq, c.elder
  from ancestors a
  join {schema}.sessionmem_checkpoints c on c.thread = a.thread
    and c.checkpoint_ns = :checkpoint_ns and c.checkpoint_id = a.parent_id
  where a.depth < :limit
)
select thread_id, thread, checkpoint_ns, checkpoint_id, parent_id,
  coalesce(order_id, checkpoint_id), order_n, head, metadata, refresh_on_read, seq, elder, idle
from ancestors order by depth

-- name: read_run_threads
-- The threads that one run wrote to.
select t.thread_id from {schema}.sessionmem_runs r
join {schema}.sessionmem_threads t on t.thread = r.thread
where r.run_id = :run_id and (t.ends_at is null or t.ends_at > :now)
  and (t.idle_until is null or t.idle_until > :now or t.keep_latest = 1)

-- name: read_expiry
-- Whether the thread's last life expired, and was to tell so.
select 1 from (select 1 as one) o
left join {schema}.sessionmem_threads t on t.thread_id = :thread_id and t.saves > 0
where case when t.thread is null then exists (
    select 1 from {schema}.sessionmem_tombstones where mark = :mark and kind = 1 and until > :now
  )
  else t.tells_expiry = 1
    and (t.ends_at <= :now or (t.idle_until <= :now and t.keep_latest = 0)) end

-- name: read_clock
-- What time it is where deadlines are set.
select :now

-- name: read_stats
-- What all tables hold; what is hidden counts in `expired`, `idle` and the size only.
select s.threads, s.expired, (
    select count(*) from {schema}.sessionmem_checkpoints s
    join {schema}.sessionmem_threads t on t.thread = s.thread
    where s.order_n >= 0 and (t.ends_at is null or t.ends_at > :now)
      and (t.idle_until is null or t.idle_until > :now
        or (t.keep_latest = 1 and s.checkpoint_id = {latest}))
  ), (
    select count(*) from {schema}.sessionmem_writes w
    join {schema}.sessionmem_threads t on t.thread = w.thread
    where t.saves > 0 and (t.ends_at is null or t.ends_at > :now)
      and (t.idle_until is null or t.idle_until > :now or t.keep_latest = 1)
  ), (
    select count(*) from {schema}.sessionmem_elements e
    join {schema}.sessionmem_threads t on t.thread = e.thread
    where (t.ends_at is null or t.ends_at > :now)
      and (t.idle_until is null or t.idle_until > :now or t.keep_latest = 1)
  ),
  (select count(*) from {schema}.sessionmem_tombstones where until > :now),
  (
    select coalesce(sum(length(head) + length(metadata)), 0)
    from {schema}.sessionmem_checkpoints
  ) + (select coalesce(sum(length(body)), 0) from {schema}.sessionmem_elements)
  + (select coalesce(sum(length(body)), 0) from {schema}.sessionmem_writes),
  s.idle
from (
  select count(case when {lives} then 1 end) as threads,
    count(case when ends_at <= :now or (idle_until <= :now and keep_latest = 0) then 1 end) as expired,
    count(case when {lives} and idle_until <= :now then 1 end) as idle
  from {schema}.sessionmem_threads where saves > 0
) s

-- part: page
-- From where on and how many checkpoints of those that are visible, the latest order key first.
(cast(:before_id as text) is null
    or (coalesce(s.order_id, s.checkpoint_id), s.order_n) < (:before_id, :before_n))
  and (cast(:after_id as text) is null
    or (coalesce(s.order_id, s.checkpoint_id), s.order_n) < (:after_id, :after_n)
    or (coalesce(s.order_id, s.checkpoint_id) = :after_id and s.order_n = :after_n
      and (t.thread_id, s.checkpoint_ns, s.checkpoint_id)
        > (:after_thread_id, :after_ns, :after_checkpoint_id)))
  and (s.order_n >= 0 or :anchors = 1)
  and (t.ends_at is null or t.ends_at > :now)
  and (t.idle_until is null or t.idle_until > :now or (
    t.keep_latest = 1 and (:anchors = 1 or s.checkpoint_id = {latest})
  ))
order by coalesce(s.order_id, s.checkpoint_id) desc, s.order_n desc, t.thread_id, s.checkpoint_ns,
  s.checkpoint_id
limit :limit

-- name: scan_checkpoints
-- A page, the latest order key first. Anchors come with what else is hidden of an idle thread.
select t.thread_id, t.thread, s.checkpoint_ns, s.checkpoint_id, s.parent_id,
  coalesce(s.order_id, s.checkpoint_id), s.order_n, s.head, s.metadata, t.refresh_on_read, s.seq,
  s.elder, case when t.idle_until <= :now then 1 else 0 end
from {schema}.sessionmem_checkpoints s
join {schema}.sessionmem_threads t on t.thread = s.thread
where (cast(:thread_id as text) is null or t.thread_id = :thread_id)
  and (cast(:checkpoint_ns as text) is null or s.checkpoint_ns = :checkpoint_ns)
  and (cast(:checkpoint_id as text) is null or s.checkpoint_id = :checkpoint_id)
  and {page}

-- part: thread
-- The columns of a thread that lives.
thread_id, thread, created_at, updated_at, case when idle_until > :now then idle_until end,
  case when idle_until is null or idle_until > :now then ends_at end,
  case when idle_until <= :now then namespaces else checkpoints end, size, owner, saves,
  idle, max_age, interrupted, refresh_on_read, keep_latest, tells_expiry, sticky, waiting

-- part: lives
saves > 0 and (ends_at is null or ends_at > :now)
  and (idle_until is null or idle_until > :now or keep_latest = 1)

-- part: within
thread_id >= :first and (cast(:last as text) is null or thread_id < :last)

-- part: place
-- Where a thread is in its order.
case :order when 'updated_at' then -updated_at else coalesce(
  case when idle_until is null then ends_at when idle_until <= :now then null
    when ends_at < idle_until then ends_at else idle_until end, 1e300
) end

-- name: read_thread
select {thread} from {schema}.sessionmem_thread_sizes where thread_id = :thread_id and {lives}

-- name: scan_threads
-- A page of threads by id.
select {thread} from {schema}.sessionmem_thread_sizes
where {within} and (cast(:after as text) is null or thread_id > :after) and {lives}
order by thread_id limit :limit

-- name: scan_threads_ranked
-- A page of threads in the order of `place`, ties by id.
select {thread} from {schema}.sessionmem_thread_sizes
where thread in (
  select thread from (
    select thread, thread_id, {place} as place from {schema}.sessionmem_threads
    where {within} and {lives}
  ) t
  where cast(:after as text) is null or place > :place or (place = :place and thread_id > :after)
  order by place, thread_id limit :limit
)
order by {place}, thread_id

-- name: scan_threads_by_size
-- A page of threads, the largest first, ties by id.
select {thread} from {schema}.sessionmem_thread_sizes
where {within} and {lives} and (
  cast(:after as text) is null or size < :size or (size = :size and thread_id > :after)
)
order by size desc, thread_id limit :limit

-- name: scan_idle
-- Threads to be cut down to their latest, the longest idle first.
select thread_id, thread, created_at, updated_at, idle_until, ends_at, checkpoints, size, owner, saves,
  idle, max_age, interrupted, refresh_on_read, keep_latest, tells_expiry, sticky, waiting
from {schema}.sessionmem_thread_sizes
where idle_until <= :now and keep_latest = 1 and {lives}
order by idle_until, thread_id limit :limit

-- name: scan_expired
-- Threads to be deleted, the longest over first.
select thread_id, thread, created_at, updated_at, idle_until, ends_at, checkpoints, size, owner, saves,
  idle, max_age, interrupted, refresh_on_read, keep_latest, tells_expiry, sticky, waiting
from {schema}.sessionmem_thread_sizes
where thread in (select thread from ({expired}) e)
order by case when ends_at <= :now and (idle_until is null or ends_at < idle_until or keep_latest = 1)
  then ends_at else idle_until end, thread_id
limit :limit
