-- Storing checkpoints and writes, for both SQL dialects. A dialect's own file holds what differs, and
-- wins by name. `:now` is the database's clock plus the backend's offset, the same in all statements
-- of a script. A rule that is broken becomes a null that a column refuses, and undoes the script.

-- name: make_thread
-- A thread of which so far only writes are known, if there is none; its first checkpoint renews it.
insert into {schema}.sessionmem_threads (
  thread_id, token, saves, created_at, updated_at, refresh_on_read, keep_latest, tells_expiry, sticky,
  waiting, idle_until
)
values (:thread_id, 0, 0, :now, :now, 0, 0, 0, 0, 1, :now + 600)
on conflict (thread_id) do nothing

-- part: limits
-- New limits of a thread: its own stay, unless these are its own too.
idle = case when :sticky >= sticky then cast(:idle as double precision) else idle end,
  max_age = case when :sticky >= sticky then cast(:max_age as double precision) else max_age end,
  interrupted = case when :sticky >= sticky then cast(:interrupted as double precision)
    else interrupted end,
  refresh_on_read = case when :sticky >= sticky then :refresh_on_read else refresh_on_read end,
  keep_latest = case when :sticky >= sticky then :keep_latest else keep_latest end,
  tells_expiry = case when :sticky >= sticky then :tells_expiry else tells_expiry end,
  sticky = case when :sticky >= sticky then :sticky else sticky end

-- name: take_thread
-- Renews the thread and marks it with this save's token; the statements after it go by that. What
-- other rows say is asked later: until this one has its lock, they may still change.
update {schema}.sessionmem_threads set
  token = :token,
  saves = saves + 1,
  owner = coalesce(owner, :owner),
  created_at = case when saves = 0 then :now else created_at end,
  updated_at = :now,
  {limits},
  waiting = :pending,
  idle_until = :now + case
    when :sticky < sticky then case when :pending = 1 then interrupted else idle end
    when :pending = 1 then cast(:interrupted as double precision)
    else cast(:idle as double precision) end,
  ends_at = case when saves = 0 then :now else created_at end
    + case when :sticky >= sticky then cast(:max_age as double precision) else max_age end
where thread_id = :thread_id
  and (cast(:generation as bigint) is null or thread = :generation)
  and (ends_at is null or ends_at > :now) and (idle_until is null or idle_until > :now)

-- name: save_elements
-- A taken place, also one within a sealed block: the same bytes are success, others are refused.
insert into {schema}.sessionmem_elements (thread, log, position, body)
select t.thread, :log, :position, case when (
    select min(e.position) from {schema}.sessionmem_elements e
    where e.thread = t.thread and e.log = :log and e.position >= :position
  ) > :position then null else :body end
from {schema}.sessionmem_threads t
where t.thread_id = :thread_id and t.token = :token
on conflict (thread, log, position) do update
set body = case when sessionmem_elements.body = excluded.body then excluded.body end

-- name: cut_sealed
-- What a block takes the place of.
delete from {schema}.sessionmem_elements
where thread = (
    select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  )
  and log = :block_log and position >= :first and position < :last

-- name: save_blocks
insert into {schema}.sessionmem_elements (thread, log, position, body)
select thread, :block_log, :last, :block_body from {schema}.sessionmem_threads
where thread_id = :thread_id and token = :token
on conflict (thread, log, position) do update set body = excluded.body

-- part: latest
-- The latest checkpoint in the namespace `s.checkpoint_ns` of `s.thread`: that with the largest id,
-- unless others were put behind it by their order key.
(
  select coalesce((
    select u.checkpoint_id from {schema}.sessionmem_checkpoints u
    where u.thread = s.thread and u.checkpoint_ns = s.checkpoint_ns and u.order_n > 0
      and u.order_id >= coalesce(n.checkpoint_id, '')
    order by u.order_id desc, u.order_n desc limit 1
  ), n.checkpoint_id)
  from (
    select max(o.checkpoint_id) as checkpoint_id from {schema}.sessionmem_checkpoints o
    where o.thread = s.thread and o.checkpoint_ns = s.checkpoint_ns and o.order_id is null
  ) n
)

-- name: save_checkpoint
-- The order key is given here, once: a replaced checkpoint keeps its own. The head is refused where
-- the parent is gone, or the thread by age, the metadata where somebody else went on from it.
insert into {schema}.sessionmem_checkpoints (
  thread, checkpoint_ns, checkpoint_id, parent_id, order_id, order_n, seq, elder, head, metadata
)
select v.thread, :checkpoint_ns, :checkpoint_id, :parent_id,
  case when v.live = 1 then v.order_id end, case when v.live = 1 then v.order_n + 1 else 0 end,
  v.saves,
  case when v.parent_n is not null and v.latest_id <> :parent_id then (
    select max(b.seq) from {schema}.sessionmem_checkpoints b
    where b.thread = v.thread and b.checkpoint_ns = :checkpoint_ns and b.parent_id = :parent_id
      and b.checkpoint_id <> :checkpoint_id
  ) end,
  case when (
    cast(:parent_id as text) is null or v.parent_n is not null or (
      :builds_on_parent = 0 and not exists (
        select 1 from {schema}.sessionmem_tombstones
        where mark = :mark and kind = 0 and until > :now
      )
    )
  ) and (v.saves > 1 or :begins = 1 or not exists (
    select 1 from {schema}.sessionmem_tombstones where mark = :mark and kind = 2 and until > :now
  )) then :head end,
  case when :may_fork = 1 or coalesce(v.latest_id, '') = coalesce(cast(:parent_id as text), '')
      and (v.latest_id is null) = (cast(:parent_id as text) is null) then :metadata
    when exists (
      select 1 from {schema}.sessionmem_checkpoints c
      where c.thread = v.thread and c.checkpoint_ns = :checkpoint_ns
        and c.checkpoint_id = :checkpoint_id
    ) then :metadata end
from (
  select s.thread, s.saves, p.order_n as parent_n, l.checkpoint_id as latest_id,
    coalesce(l.order_id, l.checkpoint_id) as order_id, l.order_n,
    case when :checkpoint_id <= coalesce(l.order_id, l.checkpoint_id) and p.order_n is not null
      and not exists (
        select 1 from {schema}.sessionmem_checkpoints c
        where c.thread = s.thread and c.checkpoint_ns = :checkpoint_ns
          and c.parent_id = :checkpoint_id
      ) then 1 else 0 end as live
  from (
    select thread, saves, cast(:checkpoint_ns as text) as checkpoint_ns
    from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
  ) s
  left join {schema}.sessionmem_checkpoints p on p.thread = s.thread
    and p.checkpoint_ns = s.checkpoint_ns and p.checkpoint_id = :parent_id and p.order_n >= 0
  left join {schema}.sessionmem_checkpoints l on l.thread = s.thread
    and l.checkpoint_ns = s.checkpoint_ns and l.checkpoint_id = {latest}
) v
where true
on conflict (thread, checkpoint_ns, checkpoint_id) do update set
  parent_id = excluded.parent_id, metadata = excluded.metadata,
  head = case when sessionmem_checkpoints.order_n >= 0 then excluded.head end
returning thread

-- name: save_runs
-- Which threads a run wrote to.
insert into {schema}.sessionmem_runs (run_id, thread)
select :run_id, thread from {schema}.sessionmem_threads
where thread_id = :thread_id and token = :token
on conflict (run_id, thread) do nothing

-- name: forget_early
-- Now and then: writes whose checkpoint has come are early no longer.
delete from {schema}.sessionmem_early_writes where thread = (
  select thread from {schema}.sessionmem_threads where thread_id = :thread_id and token = :token
) and exists (
  select 1 from {schema}.sessionmem_checkpoints c where c.thread = sessionmem_early_writes.thread
    and c.checkpoint_ns = sessionmem_early_writes.checkpoint_ns
    and c.checkpoint_id = sessionmem_early_writes.checkpoint_id
)

-- name: read_state
-- What a save meets, to tell why it was refused. Past its greatest age: 1, for more than an hour: 2;
-- unless it was too long idle before that.
select t.thread, t.saves,
  case when t.idle_until < t.ends_at and t.idle_until <= :now and t.keep_latest = 0 then 0
    when t.ends_at + 3600 <= :now then 2 when t.ends_at <= :now then 1 else 0 end,
  case when t.idle_until <= :now then 1 else 0 end, t.keep_latest,
  case when exists (
    select 1 from {schema}.sessionmem_tombstones where mark = :mark and kind = 0 and until > :now
  ) then 1 else 0 end,
  case when exists (
    select 1 from {schema}.sessionmem_tombstones where mark = :mark and kind = 2 and until > :now
  ) then 1 else 0 end,
  case when exists (
    select 1 from {schema}.sessionmem_checkpoints c
    where c.thread = t.thread and c.checkpoint_ns = :checkpoint_ns
      and c.checkpoint_id = :checkpoint_id and c.order_n >= 0
  ) then 1 else 0 end
from (select 1 as one) o
left join {schema}.sessionmem_threads t on t.thread_id = :thread_id

-- name: renew_thread
-- Writes renew nothing, unless the thread waits from now on or might expire before the next
-- checkpoint. One that is idle, or was cut down since, stays so: what is hidden must not come back.
update {schema}.sessionmem_threads set
  waiting = case when :interrupts = 1 then 1 else waiting end,
  idle_until = case when keep_latest = 1 and (idle_until is null or idle_until <= :now)
    then idle_until
    else :now + case when :interrupts = 1 or waiting = 1 then interrupted else idle end end
where thread = :generation and saves > 0
  and (ends_at is null or ends_at > :now)
  and (:interrupts = 1 or idle_until < :now + 30)
  and (keep_latest = 1 or idle_until is null or idle_until > :now)

-- name: hold_thread
-- Whether writes may be stored, which then holds until the end of the script.
select thread from {schema}.sessionmem_threads
where thread = :generation and thread_id = :thread_id and (ends_at is null or ends_at > :now)
  and (idle_until is null or idle_until > :now or keep_latest = 1)

-- name: save_writes
-- Special channels (idx below 0) replace, regular ones are kept out by what stands: each for itself.
-- An anchor takes none: what its descendants are rebuilt from is complete.
insert into {schema}.sessionmem_writes (
  thread, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, seq, body
)
select thread, :checkpoint_ns, :checkpoint_id, :task_id, :idx, :task_path, :channel, saves, :body
from {schema}.sessionmem_threads
where thread = :generation and thread_id = :thread_id and (ends_at is null or ends_at > :now)
  and (idle_until is null or idle_until > :now or keep_latest = 1)
  and not exists (
    select 1 from {schema}.sessionmem_checkpoints c
    where c.thread = :generation and c.checkpoint_ns = :checkpoint_ns
      and c.checkpoint_id = :checkpoint_id and c.order_n < 0
  )
on conflict (thread, checkpoint_ns, checkpoint_id, task_id, idx) do update set
  task_path = excluded.task_path, channel = excluded.channel, seq = excluded.seq, body = excluded.body
where excluded.idx < 0

-- name: save_early_writes
-- Remembers writes that came before their checkpoint, for the sweeper.
insert into {schema}.sessionmem_early_writes (thread, checkpoint_ns, checkpoint_id, since)
select t.thread, :checkpoint_ns, :checkpoint_id, :now from {schema}.sessionmem_threads t
where t.thread = :generation and t.thread_id = :thread_id and (t.ends_at is null or t.ends_at > :now)
  and (t.idle_until is null or t.idle_until > :now or t.keep_latest = 1)
  and not exists (
    select 1 from {schema}.sessionmem_checkpoints c
    where c.thread = t.thread and c.checkpoint_ns = :checkpoint_ns
      and c.checkpoint_id = :checkpoint_id
  )
on conflict (thread, checkpoint_ns, checkpoint_id) do nothing

-- name: save_limits
-- Gives a thread limits, counted from now; its own stay, unless these are its own too.
update {schema}.sessionmem_threads set
  {limits},
  ends_at = case when :sticky >= sticky then created_at + cast(:max_age as double precision)
    else ends_at end,
  idle_until = case when :sticky < sticky then idle_until
    when waiting = 1 then :now + cast(:interrupted as double precision)
    else :now + cast(:idle as double precision) end
where thread_id = :thread_id and saves > 0
  and (idle_until is null or idle_until > :now or keep_latest = 1)
  and (ends_at is null or ends_at > :now)
returning thread

-- name: touch_thread
-- Counts a sign of life of a thread that is not idle for too long already.
update {schema}.sessionmem_threads set
  idle_until = :now + case when waiting = 1 then interrupted else idle end
where thread_id = :thread_id and thread = :generation
  and idle_until > :now and (ends_at is null or ends_at > :now)
