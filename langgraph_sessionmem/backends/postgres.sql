-- What PostgreSQL says differently: many rows at a time by `unnest`, and a shared lock on the thread.

-- name: save_elements
-- A taken place: the same bytes are success, others become a null that the column refuses.
insert into {schema}.sessionmem_elements (thread, log, position, body)
select t.thread, e.log, e.position, e.body
from {schema}.sessionmem_threads t, unnest(
  cast(:log as bigint[]), cast(:position as bigint[]), cast(:body as bytea[])
) as e (log, position, body)
where t.thread_id = :thread_id and t.token = :token
on conflict (thread, log, position) do update
set body = case when sessionmem_elements.body = excluded.body then excluded.body end

-- name: save_writes
-- The shared lock keeps the thread from being deleted meanwhile; parallel tasks don't queue for it.
insert into {schema}.sessionmem_writes (
  thread, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, body
)
select t.thread, :checkpoint_ns, :checkpoint_id, w.task_id, w.idx, w.task_path, w.channel, w.body
from (
  select thread from {schema}.sessionmem_threads
  where thread_id = :thread_id
    and (cast(:generation as bigint) is null or thread = :generation)
    and (ends_at is null or ends_at > :now)
  for share
) t, unnest(
  cast(:task_id as text[]), cast(:idx as bigint[]), cast(:task_path as text[]),
  cast(:channel as text[]), cast(:body as bytea[])
) as w (task_id, idx, task_path, channel, body)
on conflict (thread, checkpoint_ns, checkpoint_id, task_id, idx) do update set
  task_path = excluded.task_path, channel = excluded.channel, body = excluded.body
where excluded.idx < 0

-- name: read_elements
-- All runs at once.
select e.log, e.position, e.body
from unnest(cast(:log as bigint[]), cast(:start as bigint[]), cast(:stop as bigint[]))
  as r (log, start, stop)
join {schema}.sessionmem_elements e
  on e.thread = :generation and e.log = r.log and e.position >= r.start and e.position < r.stop

-- name: read_writes
-- All writes of many checkpoints.
select w.checkpoint_ns, w.checkpoint_id, w.task_id, w.idx, w.task_path, w.channel, w.body
from unnest(cast(:checkpoint_ns as text[]), cast(:checkpoint_id as text[]))
  as c (checkpoint_ns, checkpoint_id)
join {schema}.sessionmem_writes w on w.thread = :generation
  and w.checkpoint_ns = c.checkpoint_ns and w.checkpoint_id = c.checkpoint_id

-- name: read_orders
-- Where checkpoints of these ids stand, in every namespace.
select c.checkpoint_ns, c.checkpoint_id, c.order_id, c.order_n
from {schema}.sessionmem_checkpoints c
join {schema}.sessionmem_threads t on t.thread = c.thread
where t.thread_id = :thread_id and c.checkpoint_id = any(cast(:checkpoint_id as text[]))
  and (t.idle_until is null or t.idle_until > :now) and (t.ends_at is null or t.ends_at > :now)
