"""Files that are written whole or not at all: a temporary file beside the target, flushed to the disk, then renamed.
And files to read, with one sentence for what is wrong with them.
"""

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 1 << 25  # of a file that may be a stranger's


@contextlib.contextmanager
def reading(path: Path, kind: type[Exception], what: str = "", most: int | None = MOST_BYTES) -> Iterator[bytes]:
    """What a file holds; what is wrong with it becomes an error of that kind, in one sentence that names the file. One
    that may be of any size is a regular file, for others may have no end.
    """
    try:
        with path.open("rb") as file:
            if most is None and not path.is_file():
                raise kind("not a regular file")
            data = file.read(-1 if most is None else most + 1)
        if most is not None and len(data) > most:
            raise kind(f"larger than {most >> 20} MiB, the limit of such a file")
        yield data
    except UnicodeDecodeError as error:
        raise kind(f"{path}: {what}not UTF-8 text ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise kind(f"{path}: cannot be read ({error.strerror or error})") from None
    except kind as error:
        raise type(error)(f"{path}: {what}{error}") from None


def write_bytes(path: str | Path, data: bytes) -> None:
    """Put ``data`` at ``path``. Whoever reads ``path`` meanwhile, or after a crash, sees the old file or the new one.

    A link is followed, a file's permissions are kept, and what cannot be replaced (a pipe) is written directly.
    """
    target = Path(os.path.realpath(path))
    if not _can_be_replaced(target):
        target.write_bytes(data)
        return
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    try:
        with contextlib.ExitStack() as undo:
            with part.open("xb") as file:
                undo.callback(part.unlink, missing_ok=True)
                if target.exists():
                    part.chmod(stat.S_IMODE(target.stat().st_mode))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
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
        if _can_be_replaced(target):
            tempfile.TemporaryFile(dir=target.parent).close()
        elif not os.access(target, os.W_OK):
            raise PermissionError
    except OSError:
        raise ValueError(f"{name}={str(path)!r} cannot be written: name a file in a folder of yours") from None


def write_text(path: str | Path, text: str) -> None:
    """As ``write_bytes``, in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def _can_be_replaced(target: Path) -> bool:
    """Whether it is a regular file, or there is none yet."""
    return target.is_file() or not target.exists()
