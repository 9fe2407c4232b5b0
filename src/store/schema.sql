-- SPDX-License-Identifier: Apache-2.0
-- The database of one run on one host, version 2. docs/schema.md explains every
-- column; a change here needs a new version and a migration in db.c. No double
-- quotes and no backslashes: the build turns this file into a C string.

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE run (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id TEXT NOT NULL DEFAULT '',
  name TEXT NOT NULL DEFAULT '',
  project TEXT NOT NULL DEFAULT '',
  command TEXT NOT NULL DEFAULT '',
  cwd TEXT NOT NULL DEFAULT '',
  host TEXT NOT NULL DEFAULT '',
  user TEXT NOT NULL DEFAULT '',
  tags TEXT NOT NULL DEFAULT '',
  notes TEXT NOT NULL DEFAULT '',
  launcher_pid INTEGER NOT NULL DEFAULT 0,
  child_pid INTEGER NOT NULL DEFAULT 0,
  start_ns INTEGER NOT NULL DEFAULT 0,
  stall_after_ms INTEGER NOT NULL DEFAULT 0,
  end_ns INTEGER NOT NULL DEFAULT 0,
  outcome INTEGER NOT NULL DEFAULT 0,
  code INTEGER NOT NULL DEFAULT -1,
  signal INTEGER NOT NULL DEFAULT 0,
  core INTEGER NOT NULL DEFAULT 0,
  user_s REAL,
  system_s REAL,
  max_rss INTEGER NOT NULL DEFAULT 0,
  evidence TEXT NOT NULL DEFAULT '',
  stderr_tail BLOB NOT NULL DEFAULT x''
);

CREATE TABLE process (
  id INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL,
  uid BLOB NOT NULL,
  pid INTEGER NOT NULL,
  ppid INTEGER NOT NULL,
  start_time INTEGER NOT NULL,
  role TEXT NOT NULL,
  program TEXT NOT NULL,
  rank INTEGER NOT NULL,
  local_rank INTEGER NOT NULL,
  world_size INTEGER NOT NULL,
  start_ns INTEGER NOT NULL,
  end_ns INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  refused INTEGER NOT NULL
);

CREATE TABLE series (
  id INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL,
  process INTEGER NOT NULL,
  name TEXT NOT NULL,
  labels TEXT NOT NULL,
  unit TEXT NOT NULL,
  help TEXT NOT NULL,
  kind INTEGER NOT NULL,
  source TEXT NOT NULL
);

CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL,
  process INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  step INTEGER,
  severity INTEGER NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  attrs TEXT NOT NULL
);

CREATE TABLE attr (
  process INTEGER NOT NULL,
  key TEXT NOT NULL,
  seq INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (process, key)
) WITHOUT ROWID;

CREATE TABLE lane (
  ring BLOB NOT NULL,
  lane INTEGER NOT NULL,
  process INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  pos INTEGER NOT NULL,
  rec INTEGER NOT NULL,
  stored INTEGER NOT NULL,
  overwritten INTEGER NOT NULL,
  broken INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  PRIMARY KEY (ring, lane)
) WITHOUT ROWID;

CREATE TABLE tail (
  seq INTEGER PRIMARY KEY,
  blob BLOB NOT NULL
);

CREATE TABLE chunk (
  series INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  start INTEGER NOT NULL,
  n INTEGER NOT NULL,
  segment INTEGER NOT NULL,
  segment_step INTEGER,
  segment_time INTEGER,
  axis INTEGER,
  pack INTEGER NOT NULL,
  at INTEGER NOT NULL,
  len INTEGER NOT NULL,
  PRIMARY KEY (series, ordinal)
) WITHOUT ROWID;

CREATE TABLE axis (
  id INTEGER PRIMARY KEY,
  blob BLOB NOT NULL
);

CREATE TABLE pack (
  id INTEGER PRIMARY KEY,
  blob BLOB NOT NULL
);

CREATE TABLE summary (
  id INTEGER PRIMARY KEY,
  blob BLOB NOT NULL
);
