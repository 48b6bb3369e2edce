"""The tables of the ledger.

``PRAGMA user_version`` holds the version of the tables; a file of another version is refused.
Numbers that must come back exactly are stored as hexadecimal floats. ``seal`` is a digest of what a
row was written with, so that damage is noticed; it is no signature.
"""

from __future__ import annotations

import sqlite3
from functools import cache

APPLICATION_ID = 0x45565231  # "EVR1": tells a ledger from another program's database
VERSION = 3

TABLES = """
CREATE TABLE releases (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    name TEXT,
    kappa TEXT NOT NULL,
    base TEXT NOT NULL,
    created TEXT NOT NULL,
    seal TEXT NOT NULL
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
    log_budget TEXT NOT NULL,
    method TEXT NOT NULL,
    proposal TEXT NOT NULL,
    options TEXT NOT NULL,
    event TEXT NOT NULL,
    event_digest TEXT NOT NULL,
    software TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('running', 'accepted', 'rejected', 'failed', 'interrupted')),
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

CREATE TABLE outputs (
    release_id INTEGER PRIMARY KEY REFERENCES releases (id),
    attempt_id INTEGER NOT NULL REFERENCES attempts (id),
    owner TEXT NOT NULL,
    opened TEXT NOT NULL,
    seal TEXT NOT NULL,
    ending TEXT CHECK (ending IN ('released', 'raised')),
    ended TEXT
) STRICT;
"""


def prepare(connection: sqlite3.Connection) -> str | None:
    """Make the tables of a new file, inside a transaction that the caller holds; say why a file
    cannot be used, if so.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    identity = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if identity != APPLICATION_ID:
        if tables or version or identity:
            return "it is a database of another program"
        _create(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    elif version > VERSION:
        return f"it has schema version {version}, and this evr knows {VERSION}: use a newer evr"
    elif version in (1, 2):
        return (
            f"it has schema version {version}, of an evr before 0.1.0: keep it for its record, and "
            "start a new ledger for new releases"
        )
    elif version != VERSION:
        return f"its schema version {version} is none of a ledger's"
    elif _columns(connection) != _right_columns():
        return "it is damaged: its tables are not a ledger's"
    return None


def _create(connection: sqlite3.Connection) -> None:
    for statement in filter(str.strip, TABLES.split(";\n")):
        connection.execute(statement)


def _columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Every column, with its table."""
    found = connection.execute(
        "SELECT one.name, two.name FROM sqlite_master AS one, pragma_table_info(one.name) AS two "
        "WHERE one.type = 'table' AND one.name NOT LIKE 'sqlite%'"
    )
    return {(str(table), str(column)) for table, column in found}


@cache
def _right_columns() -> set[tuple[str, str]]:
    connection = sqlite3.connect(":memory:")
    try:
        _create(connection)
        return _columns(connection)
    finally:
        connection.close()
