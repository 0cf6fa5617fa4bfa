"""The arguments of `AnchorExplainer.explain`, read and checked before any work."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.games.refuse import warn_long_run
from xaijax.games.rules.game import reaching
from xaijax.games.rules.space import Perturbation
from xaijax.models.model import Model
from xaijax.tables.frames import is_labelled, row_like
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from xaijax.games.rules.game import RuleGame
    from xaijax.games.rules.sampler import SampledGame
    from xaijax.methods.anchors.problem import AnchorProblem

DEFAULTS = {"delta": 0.1, "epsilon": 0.15, "stop_epsilon": 0.05}


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search."""

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
        """Whether precisions are known rather than estimated by draws."""
        return self.search in ("exact", "table")


def settings_of(
    F: int,
    search: str,
    word: str,
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
    """Reads the settings. search: resolved; word: as it was given, for messages.

    It raises InputError, also for settings that the search would ignore.
    """
    tau = checks.share(threshold, "threshold", top=True)
    share = None if confirm is None else checks.share(confirm, "confirm")
    options = {"delta": delta, "epsilon": epsilon, "stop_epsilon": stop_epsilon}
    _refuse_unused(options, search, word, share)
    read = {
        name: DEFAULTS[name] if value is None else checks.share(value, name)
        for name, value in options.items()
    }
    if beam_size is not None:  # a beam is never wider than the number of all rules
        remedy = " None: the optimum (exact search)."
        beam_size = min(checks.whole_number(beam_size, "beam_size", remedy=remedy), (1 << F) - 1)
    elif search not in ("exact", "table"):
        raise InputError(
            f"beam_size=None is the optimum, but search={search!r} estimates precisions. Say "
            "search='exact' or 'table', or a beam_size."
        )
    most = F if max_size is None else checks.whole_number(max_size, "max_size", least=0)
    return SearchSettings(
        threshold=tau,
        **read,
        batch_size=checks.whole_number(batch_size, "batch_size"),
        beam_size=beam_size,
        max_size=min(most, F),
        coverage_samples=checks.whole_number(coverage_samples, "coverage_samples"),
        search=search,
        confirm=share,
        widen=widen,
    )


def _refuse_unused(options: dict[str, Any], search: str, word: str, confirm: float | None) -> None:
    """Raises InputError for settings that the search would ignore."""
    used = {
        "exact": () if confirm is None else ("delta", "stop_epsilon"),
        "table": ("delta",) if confirm is None else ("delta", "stop_epsilon"),
        "kl-lucb": ("delta", "epsilon", "stop_epsilon"),
        "sar": ("delta", "stop_epsilon"),
    }[search]
    which = f"search={word!r}" + (f", which is {search!r} here," if word != search else "")
    for name, value in options.items():
        if value is None or name in used:
            continue
        reason = "has a fixed budget" if search == "sar" else "computes exact precisions"
        held = "" if name == "epsilon" else ", confirm= (a share of the data held out)"
        raise InputError(
            f"{name}={value!r} is not used by {which} which {reason}. Leave it out, or say "
            f"search='kl-lucb'{held}."
        )
    if confirm is not None and search not in ("exact", "table"):
        raise InputError(
            f"confirm={confirm!r} holds out data for search='exact' and 'table', not for "
            f"{word!r}. Leave it out."
        )


def one_row(x: Any, data: Any) -> Any:
    """x as a batch of one; data: has the columns of a single pandas row."""
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


SEARCHES = ("auto", "exact", "table", "kl-lucb", "sar")
# Draws of a KL-LUCB search for each rule that an exact search evaluates, both at the default
# settings: 200 rows of Adult with the bench's network took 33,900 rows per instance for 93.8 rules
# in "row", 38,800 for 93.0 in "row_bin": 361 and 417. (With beam_size=1: 227 and 271.)
BANDIT_DRAWS = 390
# Operations to draw a row of a rule, and for each of its columns: hashed numbers, a choice of a
# data row, a gather. A linear model on two cores took 52 million rows per second of 8 columns and
# 28 million of 32, which is 960 and 1,780 operations per row at the speed that `why_long` assumes.
OF_A_DRAW, OF_A_DRAWN_COLUMN = 690, 30


@dataclass(frozen=True)
class SearchChoice:
    """A search and the reason for it."""

    search: str
    reason: str


def auto_search(space: Perturbation | None, model: Model) -> SearchChoice:
    """The search that "auto" stands for; space None: players, or the user's own sampler."""
    if space is None:
        return SearchChoice("kl-lucb", "draws of players, or by a sampler, cannot be listed")
    F, finite = len(space.bins.columns), space.finite
    if finite is None:
        rows = f"{space.rows_of_rule:,} rows a rule"
        return SearchChoice(
            "kl-lucb", f"an exact average over perturbation={space.NAME!r} has {rows}"
        )
    if space.ASKS_DATA:
        return SearchChoice("exact", "it runs the data rows once, and nothing else")
    if model.backend == "jax":
        return SearchChoice(finite, "the model is traced, so rows are cheap")
    draws = len(space.listed(finite)[1])
    planned, bandit = F * draws, F * BANDIT_DRAWS
    if planned <= 2 * bandit:
        reason = f"at most twice the bandit's rows: {planned:,} against {bandit:,} for {F} columns"
        return SearchChoice(finite, reason)
    reason = f"a host model, and {planned:,} rows against the bandit's {bandit:,} for {F} columns"
    return SearchChoice("kl-lucb", reason)


def rows_of_search(space: Perturbation | None, settings: SearchSettings, F: int) -> tuple[int, int]:
    """(rules of an instance, draws of each) that a search evaluates, approximately.

    Rules of up to three columns are counted. How far a search goes depends on the answers, and on
    Adult's rows it evaluates about this number of rules (`BANDIT_DRAWS`).
    """
    beam, sizes = settings.beam_size or 1, range(1, min(3, settings.max_size) + 1)
    rules = sum(min(math.comb(F, s), beam * F) for s in sizes)
    if settings.finite:
        assert space is not None
        return rules, len(space.listed(settings.search)[1])
    return rules, max(BANDIT_DRAWS, settings.batch_size)


def asked_of_search(space: Perturbation | None, settings: SearchSettings, F: int) -> int:
    """Model rows of an instance in a search, approximately; see `rows_of_search`."""
    if space is not None and space.ASKS_DATA:
        return space.B
    rules, draws = rows_of_search(space, settings, F)
    return rules * draws


def warn_long_search(
    problem: AnchorProblem, game: RuleGame | SampledGame, settings: SearchSettings, N: int
) -> None:
    """Warns of a long search of N instances before it starts; game: that of the first of them."""
    rules, draws = rows_of_search(problem.space, settings, problem.F)
    drawn = 0 if settings.finite else OF_A_DRAW + OF_A_DRAWN_COLUMN * problem.F
    ways = "fewer rows of X or of data, max_size=, or table_rows= with search='table'"
    if not settings.finite:
        ways = "fewer rows of X, a larger epsilon= or delta=, max_size=, or a smaller batch_size="
    warn_long_run(game.questions, N * rules * draws, ways, drawn=drawn)


def refuse_search(search: str, space: Perturbation | None) -> None:
    """Raises if the space has no such search."""
    if search in ("kl-lucb", "sar"):
        return
    if space is None:
        raise InputError(
            f"search={search!r}: draws of players or by a sampler cannot be listed; say 'kl-lucb' "
            "or 'sar'."
        )
    if search == "exact":
        space.refuse_exact()
    else:
        space.refuse_table()
