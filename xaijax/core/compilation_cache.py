"""Keeps compiled programs in a folder for the next process."""

from __future__ import annotations

import os
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

from xaijax.core.checks import instance
from xaijax.core.errors import InputError
from xaijax.core.public import public

SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,  # JAX's own default is one second
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@public
def enable_compilation_cache(folder: str | os.PathLike[str]) -> Path:
    """Keeps compiled programs in a folder, so that the next process does not compile them again.

    It turns on JAX's own cache, with no minimum compile time. The setting applies to all of JAX in
    this process. A cached program is code that JAX loads and runs: anyone who can write to the
    folder can run code as you, so choose one that only you can write to. JAX distinguishes programs
    of other versions of jaxlib, other machines and other shapes. Nothing is ever deleted.

    Args:
        folder: str or path. If it does not exist, it is created with access for you alone.

    Returns:
        The absolute path of the folder.

    Raises:
        InputError: the folder cannot be created or written to, or other users can write to it.
        InputTypeError: `folder` is not a path.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import xaijax as xj
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     xj.enable_compilation_cache(folder) == Path(folder)
        True
    """
    instance(folder, "folder", str | os.PathLike, "the path of a folder")
    path = Path(folder).expanduser().absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"folder: {path} cannot be made ({error.strerror}).") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"folder: {path} cannot be written to; name one of your own.")
    if os.name == "posix" and path.stat().st_mode & 0o022:
        raise InputError(
            f"folder: other users can write to {path}, and a cached program is code that runs as "
            f"you. Name another, or say chmod go-w {path}."
        )
    for name, value in SETTINGS.items():
        jax.config.update(name, value)
    jax.config.update("jax_compilation_cache_dir", str(path))
    compilation_cache.reset_cache()  # JAX looks for a folder once, at its first program
    return path
