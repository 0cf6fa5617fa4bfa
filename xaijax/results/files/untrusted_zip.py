"""A zip file of arrays and texts from anyone, checked before anything of it is read.

Our files are not compressed, so their members take as many bytes as they claim, and all of them
together no more than the file has. A member that claims more is refused, as are an array whose
shape claims more than its member holds and a member that is read twice. The memory is thus bounded
by the size of the file, or by what the caller allows.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from xaijax.core.errors import InputError, XaiError

NAME = re.compile(r"[A-Za-z0-9_.]+")  # of a member: no folder, no parent
ENCRYPTED = 0x1
LONGEST_HEADER = 1 << 16  # characters of an array's header: of structured dtypes with many fields


class Unfit(ValueError):
    """The content of a file is not that of one of our files."""


@contextmanager
def one_error(where: str) -> Iterator[None]:
    """Turns all errors from a file's content into one InputError; where: "path: name".

    An ImportError for a library that is not installed stays, and so does the caller's own
    InputError.
    """
    try:
        yield
    except (InputError, ImportError):
        raise
    except Exception as error:  # bytes from anyone may raise anything
        said = str(error)[:300]
        raise InputError(
            f"{where} is damaged, or was made by something else: {type(error).__name__}"
            f"{': ' if said else ''}{said}. Save it again."
        ) from (None if isinstance(error, RecursionError) else error)


class Members:
    """The members of an archive; each can be read once."""

    def __init__(self, file: BinaryIO, max_bytes: int | None) -> None:
        """max_bytes: the limit for all members together; None: the size of the file.

        It raises InputError if they claim more, and the errors of `zipfile`.
        """
        size = file.seek(0, 2)
        allowed = size if max_bytes is None else max_bytes
        self._archive = zipfile.ZipFile(file)
        infos = self._archive.infolist()
        self._left = {info.filename: info for info in infos}
        if len(self._left) < len(infos):
            raise Unfit("two members have one name")
        for info in infos:
            if not NAME.fullmatch(info.filename):
                raise Unfit(f"a member has the name {info.filename[:60]!r}")
            if info.flag_bits & ENCRYPTED:
                raise Unfit(f"{info.filename} is encrypted")
        total = sum(info.file_size for info in infos)
        if total > allowed:
            name = getattr(file, "name", "the file")
            limit = "the file itself has" if max_bytes is None else "max_bytes= allows"
            raise InputError(
                f"path: {name} says that its content has {total:,} bytes, more than the "
                f"{allowed:,} that {limit}. Say max_bytes={total} if you trust it."
            )

    @property
    def names(self) -> list[str]:
        """Names of the members that are not read yet."""
        return list(self._left)

    def read(self, name: str) -> bytes:
        """The bytes of one member, verified by their checksum; it can be read only once."""
        info = self._left.pop(name, None) if isinstance(name, str) else None
        if info is None:
            raise Unfit(f"there is no member {name!r:.60}, or it is used twice")
        content = self._archive.read(info)
        if len(content) != info.file_size:
            raise Unfit(f"{name} has {len(content):,} bytes, and says {info.file_size:,}")
        return content

    def array(self, name: str) -> np.ndarray:
        """An array of a .npy member; raises Unfit if its header claims another size, or objects."""
        content = io.BytesIO(self.read(name))
        version = np.lib.format.read_magic(content)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise Unfit(f"{name} is of another version of NumPy's format")
        length = int.from_bytes(content.read(2 if version == (1, 0) else 4), "little")
        if length > LONGEST_HEADER:
            raise Unfit(f"{name} has a header of {length:,} characters")
        content.seek(len(np.lib.format.magic(*version)))
        form = np.lib.format
        read = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
        shape, _, dtype = read(content, max_header_size=LONGEST_HEADER)
        if dtype.hasobject:
            raise Unfit(f"{name} holds objects")
        whole = all(type(n) is int and n >= 0 for n in shape)
        held = len(content.getbuffer()) - content.tell()
        if not whole or math.prod(shape) * dtype.itemsize != held:
            raise Unfit(f"{name} says shape {shape!r:.60} of {dtype}, and has {held:,} bytes")
        content.seek(0)
        return np.lib.format.read_array(content, allow_pickle=False, max_header_size=LONGEST_HEADER)


def refused(source: Path, error: XaiError) -> InputError:
    """The error for a file whose content one of our objects refuses."""
    return InputError(f"path: {source} is damaged, or was made by something else: {error}")


def schema_of(meta: Any, newest: int, source: Path | str, what: str) -> None:
    """Raises for a schema that is not a whole number from 1 to the newest.

    Raises:
        InputError: it is not.
    """
    schema = meta["schema"]
    if type(schema) is not int or schema < 1:
        raise Unfit(f"its schema is {schema!r:.60}")
    if schema > newest:
        raise InputError(
            f"{what}: {source} has schema {schema:,}, this xaijax reads up to {newest}; update "
            "xaijax."
        )
