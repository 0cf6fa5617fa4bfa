"""JAX in a forked child: its threads are gone with the parent, and whoever asks it waits for ever.

What comes before the first use of JAX may fork as it likes; after it a child is refused at once.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter

from xaijax.core.errors import ForkedProcessError

_used = False  # by this library, in this process
_forked = False  # from a process in which JAX had begun


def before_jax() -> None:
    """Called before JAX is asked for anything; raises ForkedProcessError where it would hang."""
    global _used
    if _forked:
        raise ForkedProcessError(
            f"this process ({os.getpid()}) was forked after its parent had used JAX, whose threads "
            "a fork does not have: it would wait for ever. Start workers by spawn "
            "(multiprocessing.get_context('spawn'), or joblib's loky), or fork before the first "
            "explanation."
        )
    _used = True


def _begun() -> bool:
    """Whether JAX has started: by this library, or by whoever else; asks it without starting it."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    known = getattr(bridge, "backends_are_initialized", None)  # not public: else it is as we know
    return _used or (known is not None and bool(known()))


def _in_child() -> None:
    global _forked
    _forked = _forked or _begun()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


VARIABLE = "XAIJAX_FAILPOINT"
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """End this process as by SIGKILL, where the environment says `name`, or "name:3": at the third
    time. Elsewhere nothing.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    where, _, time = wanted.partition(":")
    if where != name:
        return
    _passed[name] += 1
    if _passed[name] >= int(time or 1):
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
