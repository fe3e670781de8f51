-- Ids of jobs and calls are the numbers behind their texts: they sort by time.
-- A trajectory is its position: (job, phase, step, sample, generation), phase 0 = train, 1 = test.
-- Times are milliseconds since 1970. Payloads carry a tag byte: 0 = as they are, 1 = zstd.

CREATE TABLE jobs (
    job        INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    state      TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    record     BLOB    NOT NULL
) STRICT;

CREATE TABLE steps (
    job      INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
    step     INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    record   BLOB    NOT NULL,
    PRIMARY KEY (job, step)
) STRICT;

CREATE TABLE validations (
    job    INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
    step   INTEGER NOT NULL,
    record BLOB    NOT NULL,
    PRIMARY KEY (job, step)
) STRICT;

-- What lists, filters and sorts need. What only the detail needs is in trajectory_payloads, so
-- that going through a list never reads the conversations' pages.
CREATE TABLE trajectories (
    id                INTEGER PRIMARY KEY,
    job               INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
    phase             INTEGER NOT NULL,
    step              INTEGER NOT NULL,
    sample            INTEGER NOT NULL,
    generation        INTEGER NOT NULL,
    status            TEXT    NOT NULL,
    reward            REAL,
    reason            TEXT    NOT NULL,
    source            TEXT    NOT NULL,
    excerpt           TEXT    NOT NULL,
    finish_reason     TEXT    NOT NULL,
    turns             INTEGER NOT NULL,
    prompt_tokens     INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    total_tokens      INTEGER NOT NULL,
    rewards           TEXT    NOT NULL,
    metrics           TEXT    NOT NULL,
    ended_ms          INTEGER NOT NULL,
    UNIQUE (job, phase, step, sample, generation)
) STRICT;

CREATE INDEX trajectories_by_status ON trajectories (job, status, phase, step, sample, generation);

CREATE TABLE trajectory_payloads (
    trajectory   INTEGER PRIMARY KEY REFERENCES trajectories (id) ON DELETE CASCADE,
    conversation BLOB NOT NULL,
    tokens       BLOB NOT NULL
) STRICT;

-- One row an attempt. The first verdict of an attempt stays.
CREATE TABLE calls (
    id                INTEGER PRIMARY KEY,
    call              INTEGER NOT NULL,
    attempt           INTEGER NOT NULL,
    job               INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
    plugin            TEXT    NOT NULL,
    phase             INTEGER NOT NULL,
    step              INTEGER NOT NULL,
    sample            INTEGER NOT NULL,
    generation        INTEGER,
    started_ms        INTEGER NOT NULL,
    outcome           TEXT    NOT NULL,
    sub_kind          TEXT,
    platform          INTEGER NOT NULL,
    message           TEXT    NOT NULL,
    queue_ms          REAL    NOT NULL,
    run_ms            REAL    NOT NULL,
    model_ms          REAL    NOT NULL,
    peak_memory_bytes INTEGER,
    instance          TEXT    NOT NULL,
    payload           BLOB    NOT NULL,
    UNIQUE (call, attempt)
) STRICT;

CREATE INDEX calls_by_job ON calls (job, call, attempt);
CREATE INDEX calls_by_sample ON calls (job, phase, step, sample, generation);
CREATE INDEX calls_not_successful ON calls (job, outcome, call, attempt) WHERE outcome <> 'success';

CREATE TABLE logs (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    job      INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
    time_ms  INTEGER NOT NULL,
    level    INTEGER NOT NULL,
    logger   TEXT    NOT NULL,
    plugin   TEXT    NOT NULL,
    instance TEXT    NOT NULL,
    call     INTEGER,
    attempt  INTEGER NOT NULL,
    text     TEXT    NOT NULL
) STRICT;

CREATE INDEX logs_by_time ON logs (job, time_ms, id);
CREATE INDEX logs_by_call ON logs (call, time_ms, id) WHERE call IS NOT NULL;

CREATE TABLE metrics (
    job     INTEGER NOT NULL REFERENCES jobs (job) ON DELETE CASCADE,
    plugin  TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    time_ms INTEGER NOT NULL,
    value   REAL    NOT NULL,
    PRIMARY KEY (job, plugin, name, time_ms)
) STRICT, WITHOUT ROWID;
