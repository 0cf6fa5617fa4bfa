"""The arguments of `AnchorExplainer.explain`, read and checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.games.rules.coverage import reaching
from xaijax.tables.frames import is_labelled, row_like
from xaijax.tables.rows import rows_of

DEFAULTS = {"delta": 0.1, "epsilon": 0.15, "stop_epsilon": 0.05}


@dataclass(frozen=True)
class SearchSettings:
    """What is asked of a search."""

    threshold: float
    delta: float
    epsilon: float
    stop_epsilon: float
    batch_size: int
    beam_size: int | None
    max_size: int
    coverage_samples: int
    search: str  # resolved, never "auto"
    confirm: float | None
    widen: bool = False

    @property
    def reaching(self) -> float:
        """The least precision, averaged over a list, that reaches the threshold."""
        return reaching(self.threshold)

    @property
    def finite(self) -> bool:
        """Whether precisions are known, rather than estimated draw by draw."""
        return self.search in ("exact", "table")


def settings_of(
    F: int,
    search: str,
    asked: str,
    *,
    threshold: Any = 0.95,
    delta: Any = None,
    epsilon: Any = None,
    stop_epsilon: Any = None,
    batch_size: Any = 100,
    beam_size: Any = 4,
    max_size: Any = None,
    coverage_samples: Any = 10_000,
    confirm: Any = None,
    widen: bool = False,
) -> SearchSettings:
    """Read them. search: resolved; asked: as it was given, for messages.

    Raises InputError; also for what the search would not look at.
    """
    tau = checks.share(threshold, "threshold", top=True)
    share = None if confirm is None else checks.share(confirm, "confirm")
    given = {"delta": delta, "epsilon": epsilon, "stop_epsilon": stop_epsilon}
    _refuse_unused(given, search, asked, share)
    read = {
        name: DEFAULTS[name] if value is None else checks.share(value, name)
        for name, value in given.items()
    }
    if beam_size is not None:
        checks.whole_number(beam_size, "beam_size", remedy=" None: the optimum (exact search).")
    elif search not in ("exact", "table"):
        raise InputError(
            f"beam_size=None is the optimum over all rules, which needs known precisions; "
            f"search={search!r} estimates them. Say search='exact' or 'table', or a beam_size."
        )
    most = F if max_size is None else checks.whole_number(max_size, "max_size", least=0)
    if beam_size is not None:  # no beam is wider than all rules that there are
        beam_size = min(int(beam_size), (1 << F) - 1)
    return SearchSettings(
        threshold=tau,
        **read,
        batch_size=checks.whole_number(batch_size, "batch_size"),
        beam_size=None if beam_size is None else int(beam_size),
        max_size=min(most, F),
        coverage_samples=checks.whole_number(coverage_samples, "coverage_samples"),
        search=search,
        confirm=share,
        widen=widen,
    )


def _refuse_unused(given: dict[str, Any], search: str, asked: str, confirm: float | None) -> None:
    """Refuse what the search would ignore."""
    used = {
        "exact": () if confirm is None else ("delta", "stop_epsilon"),
        "table": ("delta",) if confirm is None else ("delta", "stop_epsilon"),
        "kl-lucb": ("delta", "epsilon", "stop_epsilon"),
        "sar": ("delta", "stop_epsilon"),
    }[search]
    which = f"search={asked!r}" + (f", which is {search!r} here," if asked != search else "")
    for name, value in given.items():
        if value is None or name in used:
            continue
        way = "" if name == "epsilon" else "Say confirm= (a share of the data held out), or "
        if search == "sar":
            reason = "has a fixed budget, and no error to choose"
        elif name == "delta":
            reason = "computes precisions on the data given, so no chance of error is promised"
        else:
            reason = "knows precisions, so there is nothing to stop early"
            way = way if confirm is None else ""
        raise InputError(
            f"{name}={value!r} has no place with {which} which {reason}. "
            f"{way}{'leave it out' if way else 'Leave it out'}, or say search='kl-lucb'."
        )
    if confirm is not None and search not in ("exact", "table"):
        raise InputError(
            f"confirm={confirm!r} holds out data for search='exact' and 'table'; {which} validates "
            "rules by draws of their own. Leave it out."
        )


def one_row(x: Any, data: Any) -> Any:
    """x as a batch of one; data: whose columns a lone pandas row has."""
    if rows_of(x).is_frame:
        if len(x) != 1:
            raise InputError(f"x must be one row, got a frame of {len(x)} rows.")
        return x
    if is_labelled(x):
        return row_like(x, data, "x")
    array = checks.as_array(x, "x")
    if array.ndim == 2 and len(array) != 1:
        raise InputError(f"x must be one row, got {len(array)}.")
    return array if array.ndim == 2 else array[None]
