-- Threads, their checkpoints, elements and pending writes. docs/format.md explains every column.
create table {schema}.sessionmem_threads (
  thread integer primary key autoincrement,
  thread_id text not null unique,
  token integer not null,
  created_at real not null,
  updated_at real not null,
  idle real,
  max_age real,
  interrupted real,
  refresh_on_read integer not null,
  sticky integer not null,
  waiting integer not null,
  idle_until real,
  ends_at real
);
create index {schema}.sessionmem_threads_idle on sessionmem_threads (idle_until) where idle_until is not null;
create index {schema}.sessionmem_threads_ends on sessionmem_threads (ends_at) where ends_at is not null;

create table {schema}.sessionmem_checkpoints (
  thread integer not null,
  checkpoint_ns text not null,
  checkpoint_id text not null,
  parent_id text,
  order_id text not null,
  order_n integer not null,
  run_id text,
  head blob not null,
  metadata blob not null,
  primary key (thread, checkpoint_ns, checkpoint_id)
) without rowid;
create index {schema}.sessionmem_checkpoints_order
  on sessionmem_checkpoints (thread, checkpoint_ns, order_id, order_n);

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

create table {schema}.sessionmem_tombstones (
  mark blob not null,
  generation integer not null,
  until real not null,
  primary key (mark, generation)
) without rowid;
