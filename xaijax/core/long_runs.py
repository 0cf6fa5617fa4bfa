"""What a long run is called: what takes more than about a minute is told of before it starts."""

from __future__ import annotations

from xaijax.core import checks
from xaijax.core.errors import LongRunWarning

# Operations of about a minute at 25e9 a second, which small float32 networks reach on one core of a
# CPU. Layers that fit no cache are slower, large ones faster, both by up to ten times.
MINUTE_OF_A_CORE = 1.5e12


def tell(said: str, ways: str) -> None:
    """Warn of what takes long; ways: to shorten it."""
    checks.warn(
        f"{said}: more than about a minute. To ask for less: {ways}. To go on without this "
        "message: warnings.filterwarnings('ignore', category=xaijax.LongRunWarning).",
        LongRunWarning,
    )
