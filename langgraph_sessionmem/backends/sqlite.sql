-- What SQLite says differently: no index serves `or`, so a thread is found as a range.

-- part: within
thread_id >= :first and thread_id < coalesce(:last, x'ff')

-- name: scan_checkpoints
-- A page, the latest order key first. Anchors come with what else is hidden of an idle thread.
select t.thread_id, t.thread, c.checkpoint_ns, c.checkpoint_id, c.parent_id, t.order_id, t.order_n,
  c.head, c.metadata, t.refresh_on_read, c.seq, c.elder,
  case when t.idle_until <= :now then 1 else 0 end
from (
  select t.thread_id, t.thread, t.refresh_on_read, t.idle_until, s.checkpoint_ns, s.checkpoint_id,
    coalesce(s.order_id, s.checkpoint_id) as order_id, s.order_n
  from {schema}.sessionmem_threads t
  join {schema}.sessionmem_checkpoints s on s.thread = t.thread
  where t.thread_id between coalesce(:thread_id, '') and coalesce(:thread_id, x'ff')
    and s.checkpoint_ns between coalesce(:checkpoint_ns, '') and coalesce(:checkpoint_ns, x'ff')
    and (:checkpoint_id is null or s.checkpoint_id = :checkpoint_id)
    and {page}
) t
join {schema}.sessionmem_checkpoints c on c.thread = t.thread
  and c.checkpoint_ns = t.checkpoint_ns and c.checkpoint_id = t.checkpoint_id
order by t.order_id desc, t.order_n desc, t.thread_id, t.checkpoint_ns, t.checkpoint_id

-- name: read_writes
-- All writes of many checkpoints, which come as one JSON array.
select w.checkpoint_ns, w.checkpoint_id, w.task_id, w.idx, w.task_path, w.channel, w.body, w.seq
from json_each(:rows) r
cross join {schema}.sessionmem_writes w
where w.thread = :generation and w.checkpoint_ns = json_extract(r.value, '$.checkpoint_ns')
  and w.checkpoint_id = json_extract(r.value, '$.checkpoint_id')
