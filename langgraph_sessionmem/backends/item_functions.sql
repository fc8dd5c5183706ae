-- What is asked of items often, as functions in the PostgreSQL server; `functions.sql` says why.
-- Every table is found in by an index, whatever the planner thinks of its size.

-- part: plans
language plpgsql set plan_cache_mode = force_generic_plan
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as {quote}
declare
  v_now double precision := extract(epoch from statement_timestamp()) + p_offset;

-- part: item
o_item_id bigint, o_namespace text, o_key text, o_value bytea, o_created_at bigint,
o_updated_at bigint, o_ttl_minutes double precision, o_paths text

-- part: candidate
o_item_id bigint, o_namespace text, o_key text, o_updated_at bigint, o_length integer,
o_position bigint, o_session text, o_asks integer

-- part: postings
o_token text, o_item_ids text, o_occurrences text, o_lengths text

-- name: read_items
create or replace function {function} (p_offset double precision, p_named text
) returns table ({item}) {plans}
begin
  return query {read_items};
end
{quote}

-- name: read_items_by_id
create or replace function {function} (p_offset double precision, p_item_ids text
) returns table ({item}) {plans}
begin
  return query {read_items_by_id};
end
{quote}

-- name: scan_items
create or replace function {function} (
  p_offset double precision, p_low text, p_high text, p_after_updated_at bigint,
  p_after_namespace text, p_after_key text, p_limit integer
) returns table ({item}) {plans}
begin
  return query {scan_items};
end
{quote}

-- name: read_scope
create or replace function {function} (
  p_offset double precision, p_low text, p_high text, p_tokens text
) returns table (o_token text, o_count numeric, o_length numeric, o_stamp numeric, o_turns bigint) {plans}
begin
  return query {read_scope};
end
{quote}

-- name: search_postings
create or replace function {function} (
  p_offset double precision, p_low text, p_high text, p_tokens text
) returns table ({postings}) {plans}
begin
  return query {search_postings};
end
{quote}

-- name: search_postings_among
create or replace function {function} (
  p_offset double precision, p_low text, p_high text, p_tokens text, p_item_ids text
) returns table ({postings}) {plans}
begin
  return query {search_postings_among};
end
{quote}

-- name: read_candidates
create or replace function {function} (p_offset double precision, p_item_ids text
) returns table ({candidate}) {plans}
begin
  return query {read_candidates};
end
{quote}

-- name: read_neighbours
create or replace function {function} (
  p_offset double precision, p_item_ids text, p_distance integer, p_known text
) returns table ({candidate}) {plans}
begin
  return query {read_neighbours};
end
{quote}

-- name: save_items
-- What its steps do, one item after the other: for one item that is much less to plan and to join.
-- A new version of a text that stays as long rewrites only the postings that differ.
{does hold_namespaces refuse_unexpected uncount_texts forget_postings forget_vectors forget_versions
  forget_items keep_version save_item cut_versions save_postings save_vector count_texts touch_items
  is_settled forget_namespaces drop_empty_namespaces}
create or replace function {function} (
  p_offset double precision, p_stamp bigint, p_refused bigint, p_names text, p_named text,
  p_first text, p_emptied text, p_item_ids text, p_last integer, p_keeps integer, p_drops integer,
  p_namespace text[], p_key text[], p_before bigint[], p_created_at bigint[],
  p_updated_at bigint[], p_since bigint[], p_ttl_minutes double precision[], p_length integer[],
  p_position bigint[], p_session text[], p_asks integer[], p_paths text[], p_tokens text[],
  p_body bytea[], p_vector_namespace text[], p_vector_key text[], p_digest bytea[],
  p_vector bytea[]
) returns table (o_is_settled integer) {plans}
  v_at integer;
  v_space record;
  v_old record;
  v_time bigint := cast(v_now * 1000000 as bigint);
  v_texts bigint := 0;
  v_length bigint := 0;
  v_is_held boolean := false;
begin
  if p_refused is null and p_drops = 0 and p_namespace[1] = p_namespace[cardinality(p_namespace)] then
    -- One namespace, as a rule: it is held by its lock, and written once, at the end.
    select n.ns, n.saved_at into v_space from {schema}.sessionmem_namespaces n
    where n.namespace = p_namespace[1] for update;
    v_is_held := found;
    v_space.saved_at := greatest(
      v_time, case when v_space.saved_at < v_time + 1000000 then v_space.saved_at + 1 + p_last end
    );
  end if;
  if p_names is not null and not v_is_held then
    {hold_namespaces};
  end if;
  if p_refused is not null then
    {refuse_unexpected};
  end if;
  if p_drops = 1 then
    {uncount_texts};
    {forget_postings};
    {forget_vectors};
    {forget_versions};
    {forget_items};
  end if;
  for v_at in 1 .. coalesce(cardinality(p_key), 0) loop
    if not v_is_held and (v_at = 1 or p_namespace[v_at] <> p_namespace[v_at - 1]) then
      if v_texts <> 0 or v_length <> 0 then
        update {schema}.sessionmem_namespaces n
        set texts = n.texts + v_texts, length = n.length + v_length where n.ns = v_space.ns;
        v_texts := 0;
        v_length := 0;
      end if;
      select n.ns, n.saved_at into v_space from {schema}.sessionmem_namespaces n
      where n.namespace = p_namespace[v_at] and n.stamp = p_stamp;
      exit when not found;
    end if;
    select i.item_id, i.updated_at, i.since, i.expires_at, i.value,
      case when p_drops = 1 then 0 else i.length end as length, i.length = p_length[v_at] as same,
      case when p_drops = 1 then '{}' else i.tokens end as tokens
    into v_old from {schema}.sessionmem_items i where i.ns = v_space.ns and i.key = p_key[v_at];
    v_texts := v_texts + (p_length[v_at] > 0)::integer - (coalesce(v_old.length, 0) > 0)::integer;
    v_length := v_length + p_length[v_at] - coalesce(v_old.length, 0);
    if v_old.expires_at <= v_now or p_updated_at[v_at] is not null then
      delete from {schema}.sessionmem_postings o using json_each(cast(v_old.tokens as json)) t
      where o.ns = v_space.ns and o.token = t.key and o.item_id = v_old.item_id;
      delete from {schema}.sessionmem_vectors v where v.item_id = v_old.item_id;
      delete from {schema}.sessionmem_versions v where v.item_id = v_old.item_id;
      delete from {schema}.sessionmem_items i where i.item_id = v_old.item_id;
      v_old.item_id := null;
    end if;
    v_time := v_space.saved_at - p_before[v_at];
    if v_old.item_id is null then
      insert into {schema}.sessionmem_items (
        ns, key, created_at, updated_at, since, ttl_minutes, expires_at, length, position, session,
        asks, paths, tokens, value
      ) values (
        v_space.ns, p_key[v_at], coalesce(p_created_at[v_at], v_time),
        coalesce(p_updated_at[v_at], v_time), coalesce(p_since[v_at], v_time),
        p_ttl_minutes[v_at], v_now + 60 * p_ttl_minutes[v_at], p_length[v_at], p_position[v_at],
        p_session[v_at], p_asks[v_at], p_paths[v_at], p_tokens[v_at], p_body[v_at]
      ) returning item_id, '{}' as tokens into v_old;
    else
      v_time := greatest(v_time, v_old.updated_at + 1);
      if v_old.value <> p_body[v_at] and p_keeps is distinct from 0 then
        insert into {schema}.sessionmem_versions (item_id, since, value)
        values (v_old.item_id, v_old.since, v_old.value) on conflict (item_id, since) do nothing;
      end if;
      if p_keeps is not null then
        delete from {schema}.sessionmem_versions v
        where v.item_id = v_old.item_id and v.since <= (
          select o.since from {schema}.sessionmem_versions o
          where o.item_id = v_old.item_id order by o.since desc offset p_keeps limit 1
        );
      end if;
      update {schema}.sessionmem_items i set
        updated_at = v_time,
        since = case when v_old.value = p_body[v_at] then i.since else v_time end,
        ttl_minutes = p_ttl_minutes[v_at], expires_at = v_now + 60 * p_ttl_minutes[v_at],
        length = p_length[v_at], position = p_position[v_at], session = p_session[v_at],
        asks = p_asks[v_at], paths = p_paths[v_at], tokens = p_tokens[v_at], value = p_body[v_at]
      where i.item_id = v_old.item_id;
      delete from {schema}.sessionmem_vectors v where v.item_id = v_old.item_id;
      if v_old.same then
        delete from {schema}.sessionmem_postings o using (
          select t.key, t.value from json_each_text(cast(v_old.tokens as json)) t
          except select t.key, t.value from json_each_text(cast(p_tokens[v_at] as json)) t
        ) d
        where o.ns = v_space.ns and o.token = d.key and o.item_id = v_old.item_id;
      else
        delete from {schema}.sessionmem_postings o using json_each(cast(v_old.tokens as json)) t
        where o.ns = v_space.ns and o.token = t.key and o.item_id = v_old.item_id;
        v_old.tokens := '{}';
      end if;
    end if;
    if v_old.tokens = '{}' then
      insert into {schema}.sessionmem_postings (ns, token, item_id, occurrences, length)
      select v_space.ns, t.key, v_old.item_id, cast(t.value as integer), p_length[v_at]
      from json_each_text(cast(p_tokens[v_at] as json)) t;
    else
      insert into {schema}.sessionmem_postings (ns, token, item_id, occurrences, length)
      select v_space.ns, d.key, v_old.item_id, cast(d.value as integer), p_length[v_at] from (
        select t.key, t.value from json_each_text(cast(p_tokens[v_at] as json)) t
        except select t.key, t.value from json_each_text(cast(v_old.tokens as json)) t
      ) d;
    end if;
  end loop;
  if v_is_held then
    update {schema}.sessionmem_namespaces n
    set texts = n.texts + v_texts, length = n.length + v_length, stamp = p_stamp,
      saved_at = v_space.saved_at
    where n.ns = v_space.ns;
  elsif v_texts <> 0 or v_length <> 0 then
    update {schema}.sessionmem_namespaces n
    set texts = n.texts + v_texts, length = n.length + v_length where n.ns = v_space.ns;
  end if;
  if p_vector_key is not null then
    {save_vector};
  end if;
  if p_item_ids is not null then
    {touch_items};
  end if;
  return query {is_settled};
  if p_emptied is not null then
    {drop_empty_namespaces};
  end if;
end
{quote}
