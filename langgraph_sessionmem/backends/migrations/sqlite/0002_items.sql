-- The store: items by namespace and key, and what finds them. docs/format.md explains every column.
create table {schema}.sessionmem_namespaces (
  ns integer primary key autoincrement,
  namespace text not null unique
);

create table {schema}.sessionmem_items (
  item_id integer primary key autoincrement,
  ns integer not null,
  key text not null,
  value blob not null,
  created_at integer not null,
  updated_at integer not null,
  ttl_minutes real,
  expires_at real,
  tokens text not null,
  length integer not null,
  position integer,
  session text,
  asks integer not null,
  unique (ns, key)
);
create index {schema}.sessionmem_items_order
  on sessionmem_items (ns, updated_at, expires_at, length);
create index {schema}.sessionmem_items_updated on sessionmem_items (updated_at);
create index {schema}.sessionmem_items_position
  on sessionmem_items (ns, position) where position is not null;
create index {schema}.sessionmem_items_expires
  on sessionmem_items (expires_at) where expires_at is not null;

create table {schema}.sessionmem_postings (
  ns integer not null,
  token text not null,
  item_id integer not null,
  occurrences integer not null,
  primary key (ns, token, item_id)
) without rowid;

create table {schema}.sessionmem_vectors (
  item_id integer not null,
  digest blob not null,
  vector blob not null,
  primary key (item_id, digest)
);
