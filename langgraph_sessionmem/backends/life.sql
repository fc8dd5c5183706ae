-- The end of threads, and threads as a whole: deleting, expiring, pruning, copying. For both dialects.

-- name: lock_thread
-- Holds a thread, whatever its state, unless it was saved to since its `seq` was read.
update {schema}.sessionmem_threads set token = :token
where thread_id = :thread_id and (cast(:seq as bigint) is null or saves = :seq)
returning thread

-- name: lock_expired
-- Holds a thread that is over, so that nothing is added to it while it makes way.
update {schema}.sessionmem_threads set token = :token
where thread_id = :thread_id
  and (ends_at <= :now or (idle_until <= :now and keep_latest = 0) or (saves = 0 and :shells = 1))

-- name: claim_expired
-- The same for a sweeper, which leaves alone what another one holds.
update {schema}.sessionmem_threads set token = :token
where thread_id = :thread_id and (ends_at <= :now or (idle_until <= :now and keep_latest = 0))

-- name: forget_marks
-- How earlier lives ended, which the end of this one makes untrue, if it had a checkpoint.
delete from {schema}.sessionmem_tombstones where mark = :mark and kind > 0 and exists (
  select 1 from {schema}.sessionmem_threads
  where thread_id = :thread_id and token = :token and saves > 0
)

-- name: save_expiry
-- That a thread expired is told for 30 days.
insert into {schema}.sessionmem_tombstones (mark, generation, kind, until)
select :mark, thread, 1, :now + 2592000 from {schema}.sessionmem_threads
where thread_id = :thread_id and token = :token and tells_expiry = 1 and saves > 0

-- name: save_age
-- Past its greatest age a thread refuses saves for an hour, unless it was too long idle before that.
insert into {schema}.sessionmem_tombstones (mark, generation, kind, until)
select :mark, thread, 2, ends_at + 3600 from {schema}.sessionmem_threads
where thread_id = :thread_id and token = :token and ends_at <= :now and saves > 0
  and (idle_until is null or idle_until >= ends_at or keep_latest = 1)

-- name: save_tombstone
-- Refuses late writes of the life that ends here, or was swept before, for an hour.
insert into {schema}.sessionmem_tombstones (mark, generation, kind, until)
select :mark, coalesce(t.thread, 0), 0, :now + 3600
from (select 1 as one) o
left join {schema}.sessionmem_threads t on t.thread_id = :thread_id
where t.thread is null or t.token = :token
on conflict (mark, generation, kind) do update set until = excluded.until

-- name: forget_expiry
-- That a thread expired, if it is gone now.
delete from {schema}.sessionmem_tombstones where mark = :mark and kind > 0 and not exists (
  select 1 from {schema}.sessionmem_threads where thread_id = :thread_id
)

-- name: drop_locked_checkpoints
-- Of the threads that this script holds.
delete from {schema}.sessionmem_checkpoints where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token)

-- name: drop_locked_elements
delete from {schema}.sessionmem_elements where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token)

-- name: drop_locked_writes
delete from {schema}.sessionmem_writes where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token)

-- name: drop_locked_early_writes
delete from {schema}.sessionmem_early_writes where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token)

-- name: drop_locked_runs
delete from {schema}.sessionmem_runs where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token)

-- name: drop_locked_threads
delete from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
returning saves

-- name: find_thread
select saves from {schema}.sessionmem_threads where thread_id = :thread_id

-- part: expired
-- Threads that are over, the first of them; each half goes along an index.
select thread, thread_id from (
  select thread, thread_id from {schema}.sessionmem_threads
  where idle_until <= :now and keep_latest = 0 and saves >= :saves
  order by idle_until limit :limit
) i
union
select thread, thread_id from (
  select thread, thread_id from {schema}.sessionmem_threads
  where ends_at <= :now and saves >= :saves
  order by ends_at limit :limit
) a

-- name: find_expired
-- Threads to delete, those that never had a checkpoint too.
select thread_id from ({expired}) e limit :limit

-- name: drop_early_writes
-- Writes whose checkpoint hasn't come within 10 minutes.
delete from {schema}.sessionmem_writes where (thread, checkpoint_ns, checkpoint_id) in (
  select e.thread, e.checkpoint_ns, e.checkpoint_id from {schema}.sessionmem_early_writes e
  where e.since <= :now - 600 and not exists (
    select 1 from {schema}.sessionmem_checkpoints c where c.thread = e.thread
      and c.checkpoint_ns = e.checkpoint_ns and c.checkpoint_id = e.checkpoint_id
  )
)

-- name: forget_early_writes
delete from {schema}.sessionmem_early_writes where since <= :now - 600

-- name: drop_tombstones
delete from {schema}.sessionmem_tombstones where until <= :now

-- name: hold_for_pruning
-- Marks the thread with this script's token; one that was saved to or cut since refuses a null.
update {schema}.sessionmem_threads set
  saves = saves + 1,
  token = case when thread = :generation and saves = :seq
    and (ends_at is null or ends_at > :now)
    and (idle_until is null or idle_until > :now or keep_latest = 1) then :token end,
  idle_until = case when :wakes = 1 then null else idle_until end
where thread_id = :thread_id
returning thread

-- name: drop_pruned_writes
delete from {schema}.sessionmem_writes
where thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  ) and checkpoint_ns = :checkpoint_ns and checkpoint_id = :checkpoint_id

-- name: drop_pruned_checkpoints
delete from {schema}.sessionmem_checkpoints
where thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  ) and checkpoint_ns = :checkpoint_ns and checkpoint_id = :checkpoint_id

-- name: drop_pruned_elements
delete from {schema}.sessionmem_elements
where thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  ) and log = :log and position >= :start and position < :stop

-- name: save_roots
-- Checkpoints whose parent goes and leaves no anchor.
update {schema}.sessionmem_checkpoints set parent_id = null
where thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  ) and checkpoint_ns = :checkpoint_ns and checkpoint_id = :checkpoint_id

-- name: save_anchors
-- Cuts checkpoints down to what their descendants are rebuilt from.
update {schema}.sessionmem_checkpoints set
  parent_id = null, order_id = '', order_n = -1, head = :head, metadata = :metadata
where thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  ) and checkpoint_ns = :checkpoint_ns and checkpoint_id = :checkpoint_id

-- name: lock_emptied
-- Holds a thread that has no checkpoint left.
update {schema}.sessionmem_threads set token = :emptied
where thread_id = :thread_id and token = :token and not exists (
  select 1 from {schema}.sessionmem_checkpoints c
  where c.thread = sessionmem_threads.thread and c.order_n >= 0
)

-- name: copy_thread
-- Makes a thread whole; there is none of this id that has not expired.
insert into {schema}.sessionmem_threads (
  thread_id, token, saves, owner, created_at, updated_at, idle, max_age, interrupted,
  refresh_on_read, keep_latest, tells_expiry, sticky, waiting, idle_until, ends_at
)
values (
  :thread_id, :token, :seq, :owner, :now, :now, :idle, :max_age, :interrupted,
  :refresh_on_read, :keep_latest, :tells_expiry, :sticky, :waiting,
  :now + case when :waiting = 1 then cast(:interrupted as double precision)
    else cast(:idle as double precision) end,
  :now + cast(:max_age as double precision)
)
on conflict (thread_id) do nothing
returning thread

-- name: copy_checkpoints
insert into {schema}.sessionmem_checkpoints (
  thread, checkpoint_ns, checkpoint_id, parent_id, order_id, order_n, seq, elder, head, metadata
)
select thread, :checkpoint_ns, :checkpoint_id, :parent_id, :order_id, :order_n, :seq, :elder, :head,
  :metadata
from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token

-- name: copy_writes
-- Writes as they are, also those of anchors.
insert into {schema}.sessionmem_writes (
  thread, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, seq, body
)
select thread, :checkpoint_ns, :checkpoint_id, :task_id, :idx, :task_path, :channel, :seq, :body
from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
