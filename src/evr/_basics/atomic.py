"""Files that are written whole or not at all: a temporary file beside the target, flushed to the disk, then renamed.
And files to read, with one sentence for what is wrong with them.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def reading(path: Path, kind: type[Exception], what: str = "") -> Iterator[IO[bytes]]:
    """A file to read; what is wrong with it becomes an error of that kind, in one sentence that names the file."""
    try:
        with path.open("rb") as file:
            yield file
    except UnicodeDecodeError as error:
        raise kind(f"{path}: {what}not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise kind(f"{path}: cannot be read ({error.strerror or error})") from None
    except kind as error:
        raise type(error)(f"{path}: {what}{error}") from None


def write_bytes(path: str | Path, data: bytes) -> None:
    """Put ``data`` at ``path``. Whoever reads ``path`` meanwhile, or after a crash, sees the old file or the new one.

    A link is followed and a file's permissions are kept. A pipe or ``/dev/stdout`` cannot be replaced and is written
    directly.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is None:
        target.write_bytes(data)
        return
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".part")
        with contextlib.ExitStack() as undo:
            undo.callback(Path(name).unlink, missing_ok=True)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, target)
    except OSError as error:  # name the file that was asked for, not the temporary one
        raise type(error)(error.errno, error.strerror, str(path)) from None
    with contextlib.suppress(OSError):  # make the rename itself last, where the system can open a folder
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_writable(**named: str | Path) -> None:
    """Refuse a path that ``write_bytes`` would fail on, before the work whose result it is to hold.

    >>> check_writable(path="/no/such/folder/file")
    Traceback (most recent call last):
    ...
    ValueError: path='/no/such/folder/file' lies in a folder that does not exist: create it first
    """
    ((name, path),) = named.items()
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"{name}={str(path)!r} is a folder: name a file")
    if not target.parent.is_dir():
        raise ValueError(f"{name}={str(path)!r} lies in a folder that does not exist: create it first")
    try:  # permissions do not tell: not even root can write to /proc
        if _mode(target) is not None:
            tempfile.TemporaryFile(dir=target.parent).close()
        elif not os.access(target, os.W_OK):
            raise PermissionError
    except OSError:
        raise ValueError(f"{name}={str(path)!r} cannot be written: name a file in a folder of yours") from None


def write_text(path: str | Path, text: str) -> None:
    """As ``write_bytes``, in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def _mode(target: Path) -> int | None:
    """The permissions that the new file gets; None for a target that is not a regular file."""
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None
