-- What both SQL dialects do for checkpoints. A dialect's own file holds what differs, and wins by name.
-- `:now` is the database's clock plus the backend's offset, the same in all statements of a script.

-- name: lock_expired
-- Holds an expired thread of this id, so that nothing is added to it while it makes way.
update {schema}.sessionmem_threads set token = 0
where thread_id = :thread_id and (idle_until <= :now or ends_at <= :now)

-- name: lock_expired_for_writes
-- The same for writes of a checkpoint the thread doesn't hold: they belong to the life that follows.
update {schema}.sessionmem_threads set token = 0
where thread_id = :thread_id and (idle_until <= :now or ends_at <= :now)
  and not exists (
    select 1 from {schema}.sessionmem_checkpoints c
    where c.thread = sessionmem_threads.thread and c.checkpoint_ns = :checkpoint_ns
      and c.checkpoint_id = :checkpoint_id
  )

-- name: lock_thread
-- Holds a thread, whatever its state.
update {schema}.sessionmem_threads set token = 0 where thread_id = :thread_id

-- name: drop_locked_checkpoints
-- A thread that `lock_expired` or `lock_thread` holds in this script has token 0, and no other has.
delete from {schema}.sessionmem_checkpoints where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = 0)

-- name: drop_locked_elements
delete from {schema}.sessionmem_elements where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = 0)

-- name: drop_locked_writes
delete from {schema}.sessionmem_writes where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = 0)

-- name: drop_locked_early_writes
delete from {schema}.sessionmem_early_writes where thread in
  (select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = 0)

-- name: save_tombstone
-- Refuses late writes of the life that ends here.
insert into {schema}.sessionmem_tombstones (mark, generation, until)
select :mark, thread, :now + 3600 from {schema}.sessionmem_threads
where thread_id = :thread_id and token = 0
on conflict (mark, generation) do update set until = excluded.until

-- name: drop_locked_thread
delete from {schema}.sessionmem_threads where thread_id = :thread_id and token = 0

-- name: save_thread
-- Makes or renews the thread and marks it with this save's token; the statements after it go by that.
insert into {schema}.sessionmem_threads (
  thread_id, token, created_at, updated_at, idle, max_age, interrupted, refresh_on_read, sticky,
  waiting, idle_until, ends_at
)
select :thread_id, :token, :now, :now, :idle, :max_age, :interrupted, :refresh_on_read, :sticky,
  :pending, :now + case when :pending = 1 then cast(:interrupted as double precision)
    else cast(:idle as double precision) end, :now + :max_age
where exists (select 1 from {schema}.sessionmem_threads where thread_id = :thread_id)
  or (cast(:generation as bigint) is null and (
    cast(:parent_id as text) is null
    or not exists (
      select 1 from {schema}.sessionmem_tombstones where mark = :mark and until > :now
    )
  ))
on conflict (thread_id) do update set
  token = excluded.token,
  updated_at = excluded.updated_at,
  waiting = excluded.waiting,
  idle = case when :sticky >= sessionmem_threads.sticky then excluded.idle
    else sessionmem_threads.idle end,
  max_age = case when :sticky >= sessionmem_threads.sticky then excluded.max_age
    else sessionmem_threads.max_age end,
  interrupted = case when :sticky >= sessionmem_threads.sticky then excluded.interrupted
    else sessionmem_threads.interrupted end,
  refresh_on_read = case when :sticky >= sessionmem_threads.sticky
    then excluded.refresh_on_read else sessionmem_threads.refresh_on_read end,
  sticky = case when :sticky >= sessionmem_threads.sticky then excluded.sticky
    else sessionmem_threads.sticky end,
  idle_until = case when :sticky >= sessionmem_threads.sticky then excluded.idle_until
    else :now + case when :pending = 1 then sessionmem_threads.interrupted
      else sessionmem_threads.idle end end,
  ends_at = sessionmem_threads.created_at + case when :sticky >= sessionmem_threads.sticky
    then excluded.max_age else sessionmem_threads.max_age end
where (cast(:generation as bigint) is null or sessionmem_threads.thread = :generation)
  and (sessionmem_threads.ends_at is null or sessionmem_threads.ends_at > :now)
  and (
    cast(:parent_id as text) is null
    or exists (
      select 1 from {schema}.sessionmem_checkpoints c
      where c.thread = sessionmem_threads.thread and c.checkpoint_ns = :checkpoint_ns
        and c.checkpoint_id = :parent_id
    )
    or not exists (
      select 1 from {schema}.sessionmem_tombstones where mark = :mark and until > :now
    )
  )

-- name: save_elements
-- A taken place: the same bytes are success, others become a null that the column refuses.
insert into {schema}.sessionmem_elements (thread, log, position, body)
select t.thread, :log, :position, :body from {schema}.sessionmem_threads t
where t.thread_id = :thread_id and t.token = :token
on conflict (thread, log, position) do update
set body = case when sessionmem_elements.body = excluded.body then excluded.body end

-- name: save_checkpoint
-- The order key is given here, once: a replaced checkpoint keeps its own.
insert into {schema}.sessionmem_checkpoints (
  thread, checkpoint_ns, checkpoint_id, parent_id, order_id, order_n, run_id, head, metadata
)
select s.thread, :checkpoint_ns, :checkpoint_id, :parent_id,
  case when s.live = 1 then s.order_id else :checkpoint_id end,
  case when s.live = 1 then s.order_n + 1 else 0 end,
  :run_id, :head, :metadata
from (
  select t.thread, l.order_id, l.order_n,
    case when l.order_id is null or :checkpoint_id > l.order_id then 0
    when exists (
      select 1 from {schema}.sessionmem_checkpoints p
      where p.thread = t.thread and p.checkpoint_ns = :checkpoint_ns
        and p.checkpoint_id = :parent_id
    ) and not exists (
      select 1 from {schema}.sessionmem_checkpoints c
      where c.thread = t.thread and c.checkpoint_ns = :checkpoint_ns
        and c.parent_id = :checkpoint_id
    ) then 1 else 0 end as live
  from {schema}.sessionmem_threads t
  left join (
    select c.thread, c.order_id, c.order_n from {schema}.sessionmem_checkpoints c
    join {schema}.sessionmem_threads o on o.thread = c.thread
    where o.thread_id = :thread_id and c.checkpoint_ns = :checkpoint_ns
    order by c.order_id desc, c.order_n desc limit 1
  ) l on l.thread = t.thread
  where t.thread_id = :thread_id and t.token = :token
) s
where true
on conflict (thread, checkpoint_ns, checkpoint_id) do update set
  parent_id = excluded.parent_id, run_id = excluded.run_id, head = excluded.head,
  metadata = excluded.metadata

-- name: forget_early_write
-- Its checkpoint has come, so its writes are no longer early.
delete from {schema}.sessionmem_early_writes
where checkpoint_ns = :checkpoint_ns and checkpoint_id = :checkpoint_id and thread in (
  select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
)

-- name: read_outcome
-- What stands after a save, to tell what became of it.
select t.thread, t.token, case when t.ends_at <= :now then 1 else 0 end,
  case when exists (
    select 1 from {schema}.sessionmem_tombstones where mark = :mark and until > :now
  ) then 1 else 0 end,
  case when exists (
    select 1 from {schema}.sessionmem_checkpoints c where c.thread = t.thread
  ) then 1 else 0 end
from (select 1 as one) o
left join {schema}.sessionmem_threads t on t.thread_id = :thread_id

-- name: save_writes_thread
-- A thread of which so far only writes are known; its first checkpoint renews it.
insert into {schema}.sessionmem_threads (
  thread_id, token, created_at, updated_at, idle, max_age, interrupted, refresh_on_read, sticky,
  waiting, idle_until, ends_at
)
select :thread_id, 1, :now, :now, :idle, :max_age, :interrupted, :refresh_on_read, 0, 1,
  :now + 600, :now + :max_age
where true
on conflict (thread_id) do nothing

-- name: renew_thread
-- Writes renew nothing, unless the thread waits from now on or might expire before the next checkpoint.
update {schema}.sessionmem_threads set
  waiting = case when :interrupts = 1 then 1 else waiting end,
  idle_until = :now + case when :interrupts = 1 or waiting = 1 then interrupted else idle end
where thread_id = :thread_id
  and (cast(:generation as bigint) is null or thread = :generation)
  and (ends_at is null or ends_at > :now)
  and (:interrupts = 1 or idle_until < :now + 30)
  and exists (
    select 1 from {schema}.sessionmem_checkpoints c where c.thread = sessionmem_threads.thread
  )

-- name: save_writes
-- Special channels (idx below 0) replace, regular ones are kept out by what stands: each for itself.
insert into {schema}.sessionmem_writes (
  thread, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, body
)
select t.thread, :checkpoint_ns, :checkpoint_id, :task_id, :idx, :task_path, :channel, :body
from {schema}.sessionmem_threads t
where t.thread_id = :thread_id
  and (cast(:generation as bigint) is null or t.thread = :generation)
  and (t.ends_at is null or t.ends_at > :now)
on conflict (thread, checkpoint_ns, checkpoint_id, task_id, idx) do update set
  task_path = excluded.task_path, channel = excluded.channel, body = excluded.body
where excluded.idx < 0

-- name: save_early_writes
-- Remembers writes that came before their checkpoint, for the sweeper.
insert into {schema}.sessionmem_early_writes (thread, checkpoint_ns, checkpoint_id, since)
select t.thread, :checkpoint_ns, :checkpoint_id, :now from {schema}.sessionmem_threads t
where t.thread_id = :thread_id
  and (cast(:generation as bigint) is null or t.thread = :generation)
  and (t.ends_at is null or t.ends_at > :now)
  and not exists (
    select 1 from {schema}.sessionmem_checkpoints c
    where c.thread = t.thread and c.checkpoint_ns = :checkpoint_ns
      and c.checkpoint_id = :checkpoint_id
  )
on conflict (thread, checkpoint_ns, checkpoint_id) do nothing

-- name: read_checkpoint
-- The named checkpoint, or the last in order, of a thread that has not expired, once for each write.
select t.thread_id, t.thread, c.checkpoint_ns, c.checkpoint_id, c.parent_id, c.order_id, c.order_n,
  c.head, c.metadata, t.refresh_on_read, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.idx,
  w.task_path, w.channel, w.body
from {schema}.sessionmem_threads t
join {schema}.sessionmem_checkpoints c on c.thread = t.thread
left join {schema}.sessionmem_writes w on w.thread = c.thread
  and w.checkpoint_ns = c.checkpoint_ns and w.checkpoint_id = c.checkpoint_id
where t.thread_id = :thread_id and c.checkpoint_ns = :checkpoint_ns
  and (t.idle_until is null or t.idle_until > :now) and (t.ends_at is null or t.ends_at > :now)
  and c.checkpoint_id = coalesce(cast(:checkpoint_id as text), (
    select l.checkpoint_id from {schema}.sessionmem_checkpoints l
    where l.thread = t.thread and l.checkpoint_ns = :checkpoint_ns
    order by l.order_id desc, l.order_n desc, l.checkpoint_id desc limit 1
  ))

-- name: read_elements
-- One run of a log.
select log, position, body from {schema}.sessionmem_elements
where thread = :generation and log = :log and position >= :start and position < :stop

-- name: read_writes
-- All writes of one checkpoint.
select checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, body
from {schema}.sessionmem_writes
where thread = :generation and checkpoint_ns = :checkpoint_ns and checkpoint_id = :checkpoint_id

-- name: read_orders
-- Where checkpoints of one id stand, in every namespace.
select c.checkpoint_ns, c.checkpoint_id, c.order_id, c.order_n
from {schema}.sessionmem_checkpoints c
join {schema}.sessionmem_threads t on t.thread = c.thread
where t.thread_id = :thread_id and c.checkpoint_id = :checkpoint_id
  and (t.idle_until is null or t.idle_until > :now) and (t.ends_at is null or t.ends_at > :now)

-- name: scan_checkpoints
-- A page, the latest order key first.
select t.thread_id, t.thread, c.checkpoint_ns, c.checkpoint_id, c.parent_id, c.order_id, c.order_n,
  c.head, c.metadata, t.refresh_on_read
from {schema}.sessionmem_checkpoints c
join {schema}.sessionmem_threads t on t.thread = c.thread
where (cast(:thread_id as text) is null or t.thread_id = :thread_id)
  and (cast(:checkpoint_ns as text) is null or c.checkpoint_ns = :checkpoint_ns)
  and (cast(:checkpoint_id as text) is null or c.checkpoint_id = :checkpoint_id)
  and (cast(:before_id as text) is null or (c.order_id, c.order_n) < (:before_id, :before_n))
  and (cast(:after_id as text) is null or (c.order_id, c.order_n) < (:after_id, :after_n)
    or (c.order_id = :after_id and c.order_n = :after_n
      and (t.thread_id, c.checkpoint_ns, c.checkpoint_id)
        > (:after_thread_id, :after_ns, :after_checkpoint_id)))
  and (t.idle_until is null or t.idle_until > :now) and (t.ends_at is null or t.ends_at > :now)
order by c.order_id desc, c.order_n desc, t.thread_id, c.checkpoint_ns, c.checkpoint_id
limit :limit

-- name: scan_threads
-- A page of threads that have a checkpoint.
select t.thread_id, t.thread, t.created_at, t.updated_at, t.idle_until, t.ends_at, (
  select count(*) from {schema}.sessionmem_checkpoints c where c.thread = t.thread
)
from {schema}.sessionmem_threads t
where (cast(:after as text) is null or t.thread_id > :after)
  and (t.idle_until is null or t.idle_until > :now) and (t.ends_at is null or t.ends_at > :now)
  and exists (select 1 from {schema}.sessionmem_checkpoints c where c.thread = t.thread)
order by t.thread_id limit :limit

-- name: save_limits
-- Gives a thread limits of its own; they stay.
update {schema}.sessionmem_threads set
  idle = :idle, max_age = :max_age, interrupted = :interrupted, refresh_on_read = :refresh_on_read,
  sticky = 1, ends_at = created_at + :max_age,
  idle_until = :now + case when waiting = 1 then cast(:interrupted as double precision)
    else cast(:idle as double precision) end
where thread_id = :thread_id
  and (idle_until is null or idle_until > :now) and (ends_at is null or ends_at > :now)
returning thread

-- name: touch_thread
-- Counts a sign of life of a thread that has not expired.
update {schema}.sessionmem_threads set
  idle_until = :now + case when waiting = 1 then interrupted else idle end
where thread_id = :thread_id and thread = :generation
  and (idle_until is null or idle_until > :now) and (ends_at is null or ends_at > :now)

-- name: scan_expired
-- Threads whose time is over, the longest first.
select thread_id from {schema}.sessionmem_threads
where idle_until <= :now or ends_at <= :now
order by coalesce(idle_until, ends_at) limit :limit

-- name: drop_early_writes
-- Writes whose checkpoint hasn't come within 10 minutes.
delete from {schema}.sessionmem_writes where exists (
  select 1 from {schema}.sessionmem_early_writes e
  where e.since <= :now - 600 and e.thread = sessionmem_writes.thread
    and e.checkpoint_ns = sessionmem_writes.checkpoint_ns
    and e.checkpoint_id = sessionmem_writes.checkpoint_id
    and not exists (
      select 1 from {schema}.sessionmem_checkpoints c where c.thread = e.thread
        and c.checkpoint_ns = e.checkpoint_ns and c.checkpoint_id = e.checkpoint_id
    )
)

-- name: forget_early_writes
delete from {schema}.sessionmem_early_writes where since <= :now - 600

-- name: drop_tombstones
delete from {schema}.sessionmem_tombstones where until <= :now
