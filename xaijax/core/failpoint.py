"""Places at which a test lets this process be killed, to see what is left."""

from __future__ import annotations

import os
import signal
from collections import Counter

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
