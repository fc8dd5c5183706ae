-- The store: items by namespace and key, and what finds them. docs/format.md explains every column.
create table {schema}.sessionmem_namespaces (
  ns integer primary key autoincrement,
  namespace text not null unique,
  texts integer not null,
  length integer not null,
  stamp integer not null,
  saved_at integer not null
);
create index {schema}.sessionmem_namespaces_saved on sessionmem_namespaces (saved_at);

create table {schema}.sessionmem_items (
  item_id integer primary key autoincrement,
  ns integer not null,
  key text not null,
  created_at integer not null,
  updated_at integer not null,
  since integer not null,
  ttl_minutes real,
  expires_at real,
  length integer not null,
  position integer,
  session text,
  asks integer not null,
  paths text,
  tokens text not null,
  value blob not null,
  unique (ns, key)
);
create index {schema}.sessionmem_items_order on sessionmem_items (ns, updated_at desc, key);
create index {schema}.sessionmem_items_position
  on sessionmem_items (ns, position) where position is not null;
create index {schema}.sessionmem_items_expires
  on sessionmem_items (expires_at, item_id) where expires_at is not null;
create index {schema}.sessionmem_items_expiring
  on sessionmem_items (ns, expires_at) where expires_at is not null;

create table {schema}.sessionmem_versions (
  item_id integer not null,
  since integer not null,
  value blob not null,
  primary key (item_id, since)
);

create table {schema}.sessionmem_postings (
  ns integer not null,
  token text not null,
  item_id integer not null,
  occurrences integer not null,
  length integer not null,
  primary key (ns, token, item_id)
) without rowid;

create table {schema}.sessionmem_vectors (
  item_id integer not null,
  digest blob not null,
  vector blob not null,
  primary key (item_id, digest)
);
