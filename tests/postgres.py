"""A PostgreSQL server of a test's own: Debian's `postgresql`, in a folder that goes with it."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest


def _program(name: str) -> str | None:
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    return shutil.which(name) or (found[-1] if found else None)


class Server:
    """Listens on a socket in its folder only. It refuses to run as root, so another user runs it there."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="evr-pg-"))
        self.folder.chmod(0o777)
        self._count = 0
        self._run("initdb", "--auth=trust", "--username=evr", "--no-sync", "-D", str(self.folder / "data"))
        self.start()

    def _run(self, name: str, *arguments: str) -> None:
        program = _program(name)
        assert program is not None
        user = ["runuser", "-u", "postgres" if _has_user("postgres") else "nobody", "--"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [*user, program, *arguments], capture_output=True, text=True, cwd="/", check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c max_connections=100"
        log = str(self.folder / "log")
        self._run("pg_ctl", "start", "-w", "-D", str(self.folder / "data"), "-l", log, "-o", options)

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "stop", "-w", "-D", str(self.folder / "data"), "-m", how)

    def database(self) -> str:
        """The URL of a new database."""
        import psycopg

        self._count += 1
        name = f"evr{self._count}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://evr@/{name}?host={self.folder}"

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _has_user(name: str) -> bool:
    return subprocess.run(["id", name], capture_output=True, check=False).returncode == 0


def server() -> Server:
    """A server that runs, or a skip that says why there is none."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    for name in ("initdb", "pg_ctl"):
        if _program(name) is None:
            pytest.skip(f"there is no {name}: apt-get install postgresql")
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("the server refuses to run as root, and there is no runuser")
    return Server()
