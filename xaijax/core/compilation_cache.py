"""Keeps compiled programs in a folder for the next process."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from xaijax.core.checks import instance
from xaijax.core.errors import InputError
from xaijax.core.public import public

SETTING = "jax_compilation_cache_dir"
SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,  # JAX's own default is one second
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@public
def enable_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path:
    """Keeps compiled programs in a folder, so that the next process does not compile them again.

    It turns on JAX's own cache, with no minimum compile time. The setting applies to all of JAX in
    this process. A cached program is code that JAX loads and runs: anyone who can write to the
    folder can run code as you, so it must be one that only you can write to. JAX distinguishes
    programs of other versions of jaxlib, other machines and other shapes. Nothing is ever deleted.

    Args:
        folder: str or path. If it does not exist, it is created with access for you alone. None:
            `xaijax` in the user's cache folder, which is `$XDG_CACHE_HOME` or `~/.cache`,
            `~/Library/Caches` on macOS and `%LOCALAPPDATA%` on Windows.

    Returns:
        The absolute path of the folder.

    Raises:
        InputError: the folder cannot be created or written to, it is another user's, or other users
            can write to it or put another in its place.
        InputTypeError: `folder` is not a path.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import xaijax as xj
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     xj.enable_compilation_cache(folder) == Path(folder)
        True
    """
    if folder is not None:
        instance(folder, "folder", str | os.PathLike, "the path of a folder, or None")
    try:
        path = (_users_own() if folder is None else Path(folder).expanduser()).absolute()
    except RuntimeError as error:  # of Path.home()
        raise InputError("folder: this user has no home directory; name a folder.") from error
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"folder: {path} cannot be made ({error.strerror}).") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"folder: {path} cannot be written to; name one of your own.")
    if os.name == "posix":
        _refuse_others(path)
    for name, value in SETTINGS.items():
        jax.config.update(name, value)
    jax.config.update(SETTING, str(path))
    compilation_cache.reset_cache()  # JAX looks for a folder once, at its first program
    return path


def _users_own() -> Path:
    """The folder of this library in the user's cache, by the rules of platformdirs."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "xaijax" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "xaijax"
    stated = os.environ.get("XDG_CACHE_HOME", "")  # the standard ignores a relative path
    return (Path(stated) if os.path.isabs(stated) else Path.home() / ".cache") / "xaijax"


def _refuse_others(path: Path) -> None:
    """Raises InputError if another user can put a program into the folder.

    The folder is refused, not closed to others: what they wrote before would still be run.
    """
    code = "a cached program is code that runs as you"
    path = path.resolve()
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise InputError(f"folder: {path} is another user's, and {code}. Name one of your own.")
    if status.st_mode & 0o022:
        raise InputError(
            f"folder: other users can write to {path}, and {code}. Name another, or empty it and "
            f"say chmod go-w {path}."
        )
    for above in path.parents:  # the sticky bit lets owners alone rename what is theirs
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise InputError(
                f"folder: other users can write to {above}, and so replace {path}; {code}. Name "
                f"another, or say chmod o-w {above}."
            )
