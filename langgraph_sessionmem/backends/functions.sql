-- Scripts as functions in the PostgreSQL server, which keeps their plans: making a plan takes longer
-- than what it is for. A query in braces stands for its text. `setup` makes the functions under names
-- that tell their text; where they are missing, the same queries go out one by one. Every query finds
-- its rows by an index, so a plan that was made while the tables were small stays good.

-- name: save_checkpoint
create or replace function {function} (
  p_offset double precision, p_thread_id text, p_token bigint, p_generation bigint, p_owner text,
  p_sticky integer, p_pending integer, p_idle double precision, p_max_age double precision,
  p_interrupted double precision, p_refresh_on_read integer, p_keep_latest integer,
  p_tells_expiry integer, p_checkpoint_ns text, p_checkpoint_id text, p_parent_id text,
  p_begins integer, p_builds_on_parent integer, p_may_fork integer, p_mark bytea, p_head bytea,
  p_metadata bytea, p_log bigint[], p_position integer[], p_body bytea[], p_block_log bigint[],
  p_first integer[], p_last integer[], p_block_body bytea[], p_run_id text[]
) returns table (o_thread bigint) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as {quote}
declare
  v_now double precision := extract(epoch from statement_timestamp()) + p_offset;
begin
  if p_generation is null then
    {make_thread};
  end if;
  {take_thread};
  if not found then
    return;
  end if;
  return query {save_checkpoint};
  if p_position is not null then
    {save_elements};
  end if;
  if p_last is not null then
    {cut_sealed};
    {save_blocks};
  end if;
  if p_run_id is not null then
    {save_runs};
  end if;
  if p_token % 128 = 1 then
    {forget_early};
  end if;
end
{quote}

-- name: save_writes
create or replace function {function} (
  p_offset double precision, p_thread_id text, p_generation bigint, p_interrupts integer,
  p_checkpoint_ns text, p_checkpoint_id text, p_task_id text[], p_idx integer[], p_task_path text[],
  p_channel text[], p_body bytea[]
) returns table (o_thread bigint) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as {quote}
declare
  v_now double precision := extract(epoch from statement_timestamp()) + p_offset;
begin
  {renew_thread};
  return query {hold_thread};
  if not found then
    return;
  end if;
  if p_task_id is not null then
    {save_writes};
  end if;
  {save_early_writes};
end
{quote}

-- name: read_checkpoint
create or replace function {function} (
  p_offset double precision, p_thread_id text, p_checkpoint_ns text, p_checkpoint_id text
) returns table (
  o_thread_id text, o_thread bigint, o_ns text, o_id text, o_parent text, o_order_id text,
  o_order_n integer, o_head bytea, o_metadata bytea, o_refresh integer, o_seq integer,
  o_elder integer, o_idle integer, o_write_ns text, o_write_id text, o_task_id text, o_idx integer,
  o_path text, o_channel text, o_body bytea, o_write_seq integer
) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as {quote}
declare
  v_now double precision := extract(epoch from statement_timestamp()) + p_offset;
begin
  return query {read_checkpoint};
end
{quote}

-- name: read_elements
create or replace function {function} (
  p_offset double precision, p_generation bigint, p_log bigint[], p_start integer[], p_stop integer[]
) returns table (o_log bigint, o_position integer, o_body bytea) language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off as {quote}
begin
  return query {read_elements};
end
{quote}
