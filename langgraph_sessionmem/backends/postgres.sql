-- What PostgreSQL says differently: many rows at a time by `unnest`, and row locks.

-- name: save_elements
-- A taken place, also one within a sealed block: the same bytes are success, others are refused.
insert into {schema}.sessionmem_elements (thread, log, position, body)
select t.thread, n.log, n.position, case when (
    select min(e.position) from {schema}.sessionmem_elements e
    where e.thread = t.thread and e.log = n.log and e.position >= n.position
  ) > n.position then null else n.body end
from {schema}.sessionmem_threads t, unnest(
  cast(:log as bigint[]), cast(:position as integer[]), cast(:body as bytea[])
) as n (log, position, body)
where t.thread_id = :thread_id and t.token = :token
on conflict (thread, log, position) do update
set body = case when sessionmem_elements.body = excluded.body then excluded.body end

-- name: cut_sealed
-- What blocks take the place of.
delete from {schema}.sessionmem_elements e
using {schema}.sessionmem_threads t, unnest(
  cast(:block_log as bigint[]), cast(:first as integer[]), cast(:last as integer[])
) as b (log, first, last)
where t.thread_id = :thread_id and t.token = :token
  and e.thread = t.thread and e.log = b.log and e.position >= b.first and e.position < b.last

-- name: save_blocks
insert into {schema}.sessionmem_elements (thread, log, position, body)
select t.thread, b.log, b.last, b.body from {schema}.sessionmem_threads t, unnest(
  cast(:block_log as bigint[]), cast(:last as integer[]), cast(:block_body as bytea[])
) as b (log, last, body)
where t.thread_id = :thread_id and t.token = :token
on conflict (thread, log, position) do update set body = excluded.body

-- name: save_runs
-- Which threads runs wrote to.
insert into {schema}.sessionmem_runs (run_id, thread)
select r.run_id, t.thread
from {schema}.sessionmem_threads t, unnest(cast(:run_id as text[])) as r (run_id)
where t.thread_id = :thread_id and t.token = :token
on conflict (run_id, thread) do nothing

-- name: hold_thread
-- Whether writes may be stored. The shared lock keeps the thread from being deleted meanwhile;
-- parallel tasks don't queue for it.
select thread from {schema}.sessionmem_threads
where thread = :generation and thread_id = :thread_id and (ends_at is null or ends_at > :now)
  and (idle_until is null or idle_until > :now or keep_latest = 1)
for share

-- name: save_writes
-- Special channels (idx below 0) replace, regular ones are kept out by what stands: each for itself.
-- An anchor takes none: what its descendants are rebuilt from is complete.
insert into {schema}.sessionmem_writes (
  thread, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, seq, body
)
select t.thread, :checkpoint_ns, :checkpoint_id, w.task_id, w.idx, w.task_path, w.channel, t.saves,
  w.body
from {schema}.sessionmem_threads t, unnest(
  cast(:task_id as text[]), cast(:idx as integer[]), cast(:task_path as text[]),
  cast(:channel as text[]), cast(:body as bytea[])
) as w (task_id, idx, task_path, channel, body)
where t.thread = :generation and t.thread_id = :thread_id
  and (t.ends_at is null or t.ends_at > :now)
  and (t.idle_until is null or t.idle_until > :now or t.keep_latest = 1)
  and not exists (
    select 1 from {schema}.sessionmem_checkpoints c
    where c.thread = :generation and c.checkpoint_ns = :checkpoint_ns
      and c.checkpoint_id = :checkpoint_id and c.order_n < 0
  )
on conflict (thread, checkpoint_ns, checkpoint_id, task_id, idx) do update set
  task_path = excluded.task_path, channel = excluded.channel, seq = excluded.seq, body = excluded.body
where excluded.idx < 0

-- name: claim_expired
-- Holds threads that are over, for a sweeper; what somebody else holds is left alone.
update {schema}.sessionmem_threads set token = :token where thread in (
  select thread from {schema}.sessionmem_threads
  where thread_id = any(cast(:thread_id as text[]))
    and (ends_at <= :now or (idle_until <= :now and keep_latest = 0))
  for update skip locked
)

-- name: forget_marks
-- How earlier lives ended, which the end of these makes untrue, if they had a checkpoint.
delete from {schema}.sessionmem_tombstones e
using unnest(cast(:thread_id as text[]), cast(:mark as bytea[])) as m (thread_id, mark),
  {schema}.sessionmem_threads t
where e.mark = m.mark and e.kind > 0 and t.thread_id = m.thread_id and t.token = :token
  and t.saves > 0

-- name: save_expiry
-- That a thread expired is told for 30 days.
insert into {schema}.sessionmem_tombstones (mark, generation, kind, until)
select m.mark, t.thread, 1, :now + 2592000
from unnest(cast(:thread_id as text[]), cast(:mark as bytea[])) as m (thread_id, mark)
join {schema}.sessionmem_threads t on t.thread_id = m.thread_id
where t.token = :token and t.tells_expiry = 1 and t.saves > 0

-- name: save_age
-- Past its greatest age a thread refuses saves for an hour, unless it was too long idle before that.
insert into {schema}.sessionmem_tombstones (mark, generation, kind, until)
select m.mark, t.thread, 2, t.ends_at + 3600
from unnest(cast(:thread_id as text[]), cast(:mark as bytea[])) as m (thread_id, mark)
join {schema}.sessionmem_threads t on t.thread_id = m.thread_id
where t.token = :token and t.ends_at <= :now and t.saves > 0
  and (t.idle_until is null or t.idle_until >= t.ends_at or t.keep_latest = 1)

-- part: locked
-- Of the threads that this script holds.
thread in (
  select thread from {schema}.sessionmem_threads
  where thread_id = any(cast(:thread_id as text[])) and token = :token
)

-- name: drop_locked_checkpoints
delete from {schema}.sessionmem_checkpoints where {locked}

-- name: drop_locked_elements
delete from {schema}.sessionmem_elements where {locked}

-- name: drop_locked_writes
delete from {schema}.sessionmem_writes where {locked}

-- name: drop_locked_early_writes
delete from {schema}.sessionmem_early_writes where {locked}

-- name: drop_locked_runs
delete from {schema}.sessionmem_runs where {locked}

-- name: drop_locked_threads
delete from {schema}.sessionmem_threads
where thread_id = any(cast(:thread_id as text[])) and token = :token
returning saves

-- name: drop_pruned_writes
delete from {schema}.sessionmem_writes w
using unnest(cast(:checkpoint_ns as text[]), cast(:checkpoint_id as text[]))
  as p (checkpoint_ns, checkpoint_id)
where w.thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  )
  and w.checkpoint_ns = p.checkpoint_ns and w.checkpoint_id = p.checkpoint_id

-- name: drop_pruned_checkpoints
delete from {schema}.sessionmem_checkpoints c
using unnest(cast(:checkpoint_ns as text[]), cast(:checkpoint_id as text[]))
  as p (checkpoint_ns, checkpoint_id)
where c.thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  )
  and c.checkpoint_ns = p.checkpoint_ns and c.checkpoint_id = p.checkpoint_id

-- name: drop_pruned_elements
delete from {schema}.sessionmem_elements e
using unnest(cast(:log as bigint[]), cast(:start as integer[]), cast(:stop as integer[]))
  as p (log, start, stop)
where e.thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  ) and e.log = p.log and e.position >= p.start and e.position < p.stop

-- name: save_roots
-- Checkpoints whose parent goes and leaves no anchor.
update {schema}.sessionmem_checkpoints c set parent_id = null
from unnest(cast(:checkpoint_ns as text[]), cast(:checkpoint_id as text[]))
  as r (checkpoint_ns, checkpoint_id)
where c.thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  )
  and c.checkpoint_ns = r.checkpoint_ns and c.checkpoint_id = r.checkpoint_id

-- name: save_anchors
-- Cuts checkpoints down to what their descendants are rebuilt from.
update {schema}.sessionmem_checkpoints c set
  parent_id = null, order_id = '', order_n = -1, head = a.head, metadata = a.metadata
from unnest(
  cast(:checkpoint_ns as text[]), cast(:checkpoint_id as text[]), cast(:head as bytea[]),
  cast(:metadata as bytea[])
) as a (checkpoint_ns, checkpoint_id, head, metadata)
where c.thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  )
  and c.checkpoint_ns = a.checkpoint_ns and c.checkpoint_id = a.checkpoint_id

-- name: copy_checkpoints
insert into {schema}.sessionmem_checkpoints (
  thread, checkpoint_ns, checkpoint_id, parent_id, order_id, order_n, seq, elder, head, metadata
)
select t.thread, c.checkpoint_ns, c.checkpoint_id, c.parent_id, c.order_id, c.order_n, c.seq,
  c.elder, c.head, c.metadata
from {schema}.sessionmem_threads t, unnest(
  cast(:checkpoint_ns as text[]), cast(:checkpoint_id as text[]), cast(:parent_id as text[]),
  cast(:order_id as text[]), cast(:order_n as integer[]), cast(:seq as integer[]),
  cast(:elder as integer[]), cast(:head as bytea[]), cast(:metadata as bytea[])
) as c (
  checkpoint_ns, checkpoint_id, parent_id, order_id, order_n, seq, elder, head, metadata
)
where t.thread_id = :thread_id and t.token = :token

-- name: copy_writes
-- Writes as they are, also those of anchors.
insert into {schema}.sessionmem_writes (
  thread, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, seq, body
)
select t.thread, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.idx, w.task_path, w.channel, w.seq,
  w.body
from {schema}.sessionmem_threads t, unnest(
  cast(:checkpoint_ns as text[]), cast(:checkpoint_id as text[]), cast(:task_id as text[]),
  cast(:idx as integer[]), cast(:task_path as text[]), cast(:channel as text[]),
  cast(:seq as integer[]), cast(:body as bytea[])
) as w (checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, seq, body)
where t.thread_id = :thread_id and t.token = :token

-- name: read_elements
-- All runs at once, each to the end of the block that its last element lies in.
select e.log, e.position, e.body
from unnest(cast(:log as bigint[]), cast(:start as integer[]), cast(:stop as integer[]))
  as r (log, start, stop)
join {schema}.sessionmem_elements e
  on e.thread = :generation and e.log = r.log and e.position >= r.start
  and e.position <= coalesce((
    select min(l.position) from {schema}.sessionmem_elements l
    where l.thread = :generation and l.log = r.log and l.position >= r.stop - 1
  ), r.stop - 1)

-- name: read_places
select log, position, octet_length(body) from {schema}.sessionmem_elements where thread = :generation

-- name: read_writes
-- All writes of many checkpoints.
select w.checkpoint_ns, w.checkpoint_id, w.task_id, w.idx, w.task_path, w.channel, w.body, w.seq
from unnest(cast(:checkpoint_ns as text[]), cast(:checkpoint_id as text[]))
  as c (checkpoint_ns, checkpoint_id)
join {schema}.sessionmem_writes w on w.thread = :generation
  and w.checkpoint_ns = c.checkpoint_ns and w.checkpoint_id = c.checkpoint_id

-- name: read_orders
-- Where checkpoints of these ids stand, in every namespace.
select s.checkpoint_ns, s.checkpoint_id, coalesce(s.order_id, s.checkpoint_id), s.order_n
from {schema}.sessionmem_checkpoints s
join {schema}.sessionmem_threads t on t.thread = s.thread
where t.thread_id = :thread_id and s.checkpoint_id = any(cast(:checkpoint_id as text[]))
  and s.order_n >= 0
  and (t.ends_at is null or t.ends_at > :now)
  and (t.idle_until is null or t.idle_until > :now or (
    t.keep_latest = 1 and s.checkpoint_id = {latest}
  ))

-- name: read_run_threads
-- The threads that these runs wrote to.
select t.thread_id from {schema}.sessionmem_runs r
join {schema}.sessionmem_threads t on t.thread = r.thread
where r.run_id = any(cast(:run_id as text[])) and (t.ends_at is null or t.ends_at > :now)
  and (t.idle_until is null or t.idle_until > :now or t.keep_latest = 1)
