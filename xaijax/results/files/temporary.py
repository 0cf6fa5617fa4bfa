"""Files that are written under a temporary name, and what killed writers leave of them.

A writer holds a lock on its file as long as it lives, which the system takes back however it ends.
So a file whose lock can be had has no writer any more, in whatever process, container or thread it
was; where files cannot be locked, nothing is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import uuid
from pathlib import Path
from typing import BinaryIO

KEEPS_OPEN = sys.platform != "win32"  # whether an open file can be renamed
if sys.platform != "win32":
    import fcntl


def owner_only(path: str, flags: int) -> int:
    """The `opener=` of `open` for files that hold rows: others on this machine cannot read them."""
    return os.open(path, flags, 0o600)


def new_temporary(target: Path) -> tuple[Path, BinaryIO]:
    """A file of a new name beside the target, open for writing, locked where that is possible."""
    while True:
        temporary = target.with_name(f".{_stem(target)}.{uuid.uuid4().hex}.tmp")
        file: BinaryIO = open(temporary, "xb", opener=owner_only)
        if sys.platform == "win32":
            return temporary, file
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if _still_there(temporary, file):
            return temporary, file
        file.close()  # taken for stale between the two lines above


def remove_stale(target: Path) -> None:
    """Remove temporary files of this target that no living writer holds."""
    name = re.compile(rf"\.{re.escape(_stem(target))}\.[0-9a-f]{{32}}\.tmp")
    for path in [one for one in target.parent.iterdir() if name.fullmatch(one.name)]:
        with contextlib.suppress(OSError):  # gone, held, not ours, or no locks here: it stays
            if sys.platform == "win32":
                path.unlink()  # refused while a writer has it open
                continue
            if path.is_symlink():
                continue
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _still_there(path, file):
                    path.unlink()


def _stem(target: Path) -> str:
    """As much of its name as leaves room for the rest: a name has 255 bytes at most."""
    return os.fsdecode(os.fsencode(target.name)[:200])


def _still_there(path: Path, file: BinaryIO) -> bool:
    try:
        now, own = os.stat(path), os.fstat(file.fileno())
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (own.st_dev, own.st_ino)
