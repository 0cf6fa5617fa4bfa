"""`load`: reads what was saved from its file."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from xaijax.core.checks import whole_number
from xaijax.core.public import public
from xaijax.methods.amortized import explainer as amortized
from xaijax.methods.amortized import fitted
from xaijax.results import interactions, private_explanation
from xaijax.results.explanation import Explanation
from xaijax.results.files import npz
from xaijax.results.interactions import Interactions
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.shared_fields import rebuilt


@public
def load(path: str | os.PathLike[str], max_bytes: int | None = None) -> Any:
    """Reads a file that `save` wrote, such as an `Explanation` or a fitted `AmortizedExplainer`.

    The result equals what was saved: bytes, dtypes, names, stats and provenance. The file may come
    from anyone: nothing in it is run, and no more is read than `max_bytes` allows. An
    `AmortizedExplainer` is loaded without its explainer, whose model is in no file: add one with
    `with_explainer`.

    Args:
        path: str or path. The file.
        max_bytes: int or None. The largest size of the file's content, unpacked. None: the size of
            the file itself, which suffices for what `save` writes. A file that somebody compressed
            needs more.

    Returns:
        An `Explanation`, `Interactions`, a `PrivateExplanation` or an `AmortizedExplainer`,
        whichever was saved.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: the file is of another kind, damaged, from a newer version, or larger than
        allowed.
        InputTypeError: `path` is not a path, or `max_bytes` is not a whole number.
        ImportError: `data` is a frame of a library that is not installed.

    Example:
        >>> import os, tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explanation = xj.Explanation(np.array([[3.0, -1.0]]), np.array([10.0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "explanation.npz")
        ...     explanation.save(path)
        ...     again = xj.load(path)
        >>> again.values
        array([[ 3., -1.]])
    """
    if max_bytes is not None:
        max_bytes = whole_number(max_bytes, "max_bytes")
    makers: dict[str, Callable[..., Any]] = {
        npz.FORMAT: partial(rebuilt, Explanation),
        interactions.FORMAT: partial(rebuilt, Interactions),
        private_explanation.FORMAT: partial(rebuilt, PrivateExplanation),
        fitted.FORMAT: amortized.rebuilt,
    }
    return npz.read(path, makers, max_bytes)
