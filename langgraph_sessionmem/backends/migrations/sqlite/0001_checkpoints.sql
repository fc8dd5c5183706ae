-- Threads, their checkpoints, elements and pending writes. docs/format.md explains every column.
create table {schema}.sessionmem_threads (
  thread integer primary key autoincrement,
  thread_id text not null unique,
  token integer not null,
  saves integer not null,
  owner text,
  created_at real not null,
  updated_at real not null,
  idle real,
  max_age real,
  interrupted real,
  refresh_on_read integer not null,
  keep_latest integer not null,
  tells_expiry integer not null,
  sticky integer not null,
  waiting integer not null,
  idle_until real,
  ends_at real
);
create index {schema}.sessionmem_threads_idle on sessionmem_threads (keep_latest, idle_until)
  where idle_until is not null;
create index {schema}.sessionmem_threads_ends on sessionmem_threads (ends_at) where ends_at is not null;

create table {schema}.sessionmem_checkpoints (
  thread integer not null,
  checkpoint_ns text not null,
  checkpoint_id text not null,
  parent_id text,
  order_id text,
  order_n integer not null,
  seq integer not null,
  elder integer,
  head blob not null,
  metadata blob not null,
  primary key (thread, checkpoint_ns, checkpoint_id)
) without rowid;
create index {schema}.sessionmem_checkpoints_order
  on sessionmem_checkpoints (thread, checkpoint_ns, order_id, order_n)
  where order_id is not null;

create table {schema}.sessionmem_elements (
  thread integer not null,
  log integer not null,
  position integer not null,
  body blob not null,
  primary key (thread, log, position)
) without rowid;

create table {schema}.sessionmem_writes (
  thread integer not null,
  checkpoint_ns text not null,
  checkpoint_id text not null,
  task_id text not null,
  idx integer not null,
  task_path text not null,
  channel text not null,
  seq integer not null,
  body blob not null,
  primary key (thread, checkpoint_ns, checkpoint_id, task_id, idx)
) without rowid;

create table {schema}.sessionmem_early_writes (
  thread integer not null,
  checkpoint_ns text not null,
  checkpoint_id text not null,
  since real not null,
  primary key (thread, checkpoint_ns, checkpoint_id)
) without rowid;

create table {schema}.sessionmem_runs (
  run_id text not null,
  thread integer not null,
  primary key (run_id, thread)
) without rowid;
create index {schema}.sessionmem_runs_thread on sessionmem_runs (thread);

create table {schema}.sessionmem_tombstones (
  mark blob not null,
  generation integer not null,
  kind integer not null,
  until real not null,
  primary key (mark, generation, kind)
) without rowid;

-- Threads as they are listed: with what they hold.
create view {schema}.sessionmem_thread_sizes as
select t.thread, t.thread_id, t.saves, t.owner, t.created_at, t.updated_at, t.idle, t.max_age,
  t.interrupted, t.refresh_on_read, t.keep_latest, t.tells_expiry, t.sticky, t.waiting, t.idle_until,
  t.ends_at, (
  select count(*) from sessionmem_checkpoints c where c.thread = t.thread and c.order_n >= 0
) as checkpoints, (
  select count(distinct c.checkpoint_ns) from sessionmem_checkpoints c
  where c.thread = t.thread and c.order_n >= 0
) as namespaces, (
  select coalesce(sum(length(c.head) + length(c.metadata)), 0) from sessionmem_checkpoints c
  where c.thread = t.thread
) + (
  select coalesce(sum(length(e.body)), 0) from sessionmem_elements e where e.thread = t.thread
) + (
  select coalesce(sum(length(w.body)), 0) from sessionmem_writes w where w.thread = t.thread
) as size
from sessionmem_threads t;
