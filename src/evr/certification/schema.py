"""The tables of the ledger, and how older ledgers become newer ones.

``PRAGMA user_version`` holds the number of steps that a file has been through; a file of a newer evr is refused.
Numbers that must come back exactly are stored as hexadecimal floats. ``seal`` is a digest of what a row was written with, so
that damage is noticed; it is no signature.
"""

from __future__ import annotations

import sqlite3

APPLICATION_ID = 0x45565231  # "EVR1": tells a ledger from another program's database

_FIRST = """
CREATE TABLE releases (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT,
    kappa TEXT NOT NULL,
    base TEXT NOT NULL,
    created TEXT NOT NULL,
    seal TEXT NOT NULL,
    output TEXT CHECK (output IN ('running', 'released')),
    output_owner TEXT,
    output_attempt INTEGER,
    output_time TEXT
) STRICT;

CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    release_id INTEGER NOT NULL REFERENCES releases (id),
    number INTEGER NOT NULL CHECK (number >= 1),
    entropy TEXT NOT NULL,
    entropy_is_fresh INTEGER NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    tau TEXT NOT NULL,
    claim TEXT NOT NULL,
    log_budget TEXT NOT NULL,
    method TEXT NOT NULL,
    proposal TEXT NOT NULL,
    options TEXT NOT NULL,
    event TEXT NOT NULL,
    event_digest TEXT NOT NULL,
    software TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'accepted', 'rejected', 'failed', 'interrupted')),
    owner TEXT NOT NULL,
    started TEXT NOT NULL,
    seal TEXT NOT NULL,
    seen TEXT NOT NULL,
    finished TEXT,
    samples INTEGER,
    message TEXT,
    UNIQUE (release_id, number),
    UNIQUE (release_id, entropy)
) STRICT;

CREATE TABLE checkpoints (
    attempt_id INTEGER NOT NULL REFERENCES attempts (id),
    direction TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    seal TEXT NOT NULL,
    PRIMARY KEY (attempt_id, direction)
) STRICT;
"""

MIGRATIONS: tuple[str, ...] = (_FIRST,)


def migrate(connection: sqlite3.Connection) -> str | None:
    """Bring a file up to date, inside a transaction that the caller holds; say why not, if so."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    identity = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if identity != APPLICATION_ID and (tables or version or identity):
        return "it is a database of another program"
    if version > len(MIGRATIONS):
        return f"it has schema version {version}, and this evr knows {len(MIGRATIONS)}: use a newer evr"
    if version < 0 or (identity == APPLICATION_ID and version == 0):
        return f"its schema version {version} is none of a ledger's"
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        for statement in filter(str.strip, script.split(";\n")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return None
