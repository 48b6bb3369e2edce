"""Where a file lies: on a disk of this machine, or where other machines reach it too."""

from __future__ import annotations

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED = re.compile(
    r"nfs|cifs|smb|9p|afs|ceph|gluster|lustre|gpfs|beegfs|fuse|ocfs2|gfs2|orangefs"
    r"|virtiofs|vboxsf|prl_fs"
)


def is_shared(path: Path) -> bool:
    """Whether a file lies on a file system that other machines may write to, or is mounted by
    itself, as containers do, so that files beside it are not shared with it; False where the system
    does not say.
    """
    try:
        lines = _MOUNTS.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return False
    target, kind, longest = path.resolve(), "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), before.split(" ")[4]))
        # of two mounted at one place, the later hides
        if target.is_relative_to(point) and len(point.parts) >= longest:
            kind, longest = after.split(" ")[0], len(point.parts)
    return longest == len(target.parts) or bool(_SHARED.match(kind))
