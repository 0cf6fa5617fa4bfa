"""`Rule` and `Rules`: the results of Anchors; frozen, without the model, the data or the space.

Letters: N instances, M rows, F columns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.html import NAME
from xaijax.core.optional import require
from xaijax.core.public import public_class
from xaijax.core.typing import Rows
from xaijax.players.predicates import (
    Predicate,
    about_words,
    category_key,
    label_words,
    number_words,
)
from xaijax.players.predicates import percent as percent
from xaijax.results.files import rules_json
from xaijax.results.files.npz import file_to_read, write_atomically
from xaijax.results.files.rules_json import plain, plain_predicate
from xaijax.results.result_html import rule_html, rules_card, rules_html
from xaijax.results.selection import resolve
from xaijax.results.shared_fields import checked_labels, texts_of
from xaijax.tables.rows import rows_of

AS_IT_IS = ("as it is",)  # in place of categories, for a player of a sampler without bins


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Rule:
    """Says: IF these conditions THEN the model predicts this, and how often this was found to hold.

    `AnchorExplainer` makes it for one instance. `str(rule)` is the sentence.

    Attributes:
        rule: list of str. The conditions in words, one per column; empty for the rule without any.
        predicates: list of the same conditions as tuples: (column, low, high), which means
            low < value <= high; or (column, categories). column is a position. For a sampler's
            players without bins: (player, ("as it is",)).
        prediction: the model's label for the instance, or its number if there is a `tolerance`.
        precision: float. Share of the rows of the perturbation space, drawn with the rule's columns
            kept, that get the instance's prediction. With `confirm` it is measured on the held-out
            rows.
        precision_lower: float or None. Lower bound with probability 1 - delta; None: exact,
            unconfirmed. The bound does not account for checks after each batch (those of `widen`
            are accounted for), nor for the choice of the rule (unconfirmed "table").
        coverage: float or None. Weighted share of the data rows, or share of a sampler's draws,
            that satisfy the rule. None: the space has no coverage.
        accepted: bool. Whether the precision reached the threshold; see `AnchorExplainer.explain`.
        samples: int. Rows of the space that were evaluated for this instance, for all rules tried.
        search: "exact", "table", "kl-lucb" or "sar".
        std_error: float or None. Standard error of the precision. None: exact.
        target: str or None. Name of what is predicted, for the sentence.
        tolerance: float or None. The largest distance at which predictions of a regression agree.
        note: str. What the user must know about how the rule was tested, or "".
        names: [F], the names of all columns, by which `applies` finds them in a frame.
        single: bool. Whether the data were float32; `applies` then reads numbers as float32 too.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rule = xj.Rule(["age > 1"], [(0, 1, np.inf)], "adult", 0.9, None, 0.5, True, 8, "exact")
        >>> print(rule)
        IF age > 1 THEN PREDICT adult WITH PRECISION 90% AND COVERAGE 50%
        >>> rule.applies(np.array([[0.0], [2.0]]))
        array([False,  True])
    """

    rule: list[str]
    predicates: list[Predicate]
    prediction: Any
    precision: float
    precision_lower: float | None
    coverage: float | None
    accepted: bool
    samples: int
    search: str
    std_error: float | None = None
    target: str | None = None
    tolerance: float | None = None
    note: str = ""
    names: tuple[str, ...] = ()
    single: bool = False

    @property
    def features(self) -> tuple[int, ...]:
        """Positions of the columns that the rule is about."""
        return tuple(p[0] for p in self.predicates)

    def applies(self, X: Rows) -> np.ndarray:
        """Says which rows satisfy the rule.

        Args:
            X: rows [M, F], an array or a frame. A frame needs the rule's columns only.

        Returns:
            bool [M].

        Raises:
            InputError: rows have another width, a frame lacks a column of the rule, or the rule is
                about players= (superpixels), which is not defined for other rows.
            InputTypeError: a column is text, but the rule compares its numbers.
        """
        if any(predicate[1] == AS_IT_IS for predicate in self.predicates):
            raise InputError(
                "a rule about players= keeps parts of one instance; it says nothing of the rows "
                "X. Its players are in rule.features."
            )
        frame = rows_of(X)
        if frame.is_frame:
            labels = [str(label) for label in frame.labels]
            if any(j >= len(self.names) for j in self.features):
                raise InputError(
                    "the rule has no names of columns to find in the frame X. Give X as an array, "
                    "or the rule names=."
                )
            lost = [self.names[j] for j in self.features if self.names[j] not in labels]
            if lost:
                raise InputError(f"X has no column {lost[0]!r}, which the rule is about.")
            places = {j: labels.index(self.names[j]) for j in self.features}
            rows = len(frame.native)
        else:
            X = checks.as_array(X, "X") if _numbers(X) else np.asarray(X)
            frame = rows_of(X)
            if self.names or self.features:
                shape = (len(self.names),) if self.names else None
                checks.rows_of(X, "X", shape, "the rule's data")
                if max(self.features, default=0) >= X.shape[1]:
                    raise InputError(
                        f"X has {X.shape[1]:,} columns; the rule is about column "
                        f"{max(self.features):,}, counted from 0."
                    )
            places, rows = {j: j for j in self.features}, len(X)
        holds = np.ones(rows, bool)
        for predicate in self.predicates:
            values = frame.column(places[predicate[0]])
            if self.single and values.dtype.kind in "iuf":
                values = values.astype(np.float32)
            holds &= _holds(predicate, values)
        return holds

    def __str__(self) -> str:
        conditions = " AND ".join(self.rule) if self.rule else "TRUE"
        text = f"IF {conditions} THEN PREDICT {self.predicted}"
        text += f" WITH PRECISION {percent(self.precision)}"
        if self.coverage is not None:
            text += f" AND COVERAGE {percent(self.coverage)}"
        return text + (f" ({', '.join(self.remarks).upper()})" if self.remarks else "")

    @property
    def predicted(self) -> str:
        """The prediction in words, with the target's name and a regression's tolerance."""
        words = label_words(self.prediction)
        if self.tolerance is not None and isinstance(self.prediction, float | int | np.number):
            words = about_words(float(self.prediction), self.tolerance)
            words += f" +- {number_words(self.tolerance)}"
        return words if self.target is None else f"{self.target} = {words}"

    @property
    def remarks(self) -> list[str]:
        """Remarks in addition to the sentence: "not accepted", and `note`."""
        return [remark for remark in ("" if self.accepted else "not accepted", self.note) if remark]

    def _repr_html_(self) -> str:
        return rule_html(self, NAME)

    def __repr__(self) -> str:
        bound = self.precision_lower
        sure = "" if bound is None else f", precision_lower={bound:.3f}"
        return f"Rule({self}; accepted={self.accepted}{sure}, {self.samples:,} samples)"

    def as_dict(self) -> dict[str, Any]:
        """Returns a dict of plain values, as `Rules.to_json` writes it; without `names`."""
        state = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "names"}
        predicates = [plain_predicate(predicate) for predicate in self.predicates]
        state |= {"rule": list(self.rule), "predicates": predicates}
        return state | {"prediction": plain(self.prediction)}


def _numbers(X: Any) -> bool:
    return getattr(getattr(X, "dtype", None), "kind", "f") in "biufV"


def _holds(predicate: Predicate, values: np.ndarray) -> np.ndarray:
    if len(predicate) == 3:
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            raise InputTypeError(
                f"X: column {predicate[0]} must be numbers, since the rule compares it with "
                f"{predicate[1:]}; got {values.dtype}."
            ) from None
        return (predicate[1] < numbers) & (numbers <= predicate[2])
    mixed = values.dtype == object
    wanted = {category_key(v, mixed) for v in predicate[1]}
    if values.dtype == np.float32:  # rows with fewer digits than the data had
        wanted |= {float(np.float32(v)) for v in predicate[1] if isinstance(v, float)}
    matches = (category_key(v, mixed) in wanted for v in values.tolist())
    return np.fromiter(matches, bool, len(values))


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Rules(Sequence[Rule]):
    """Holds the rules of N instances, in order: `rules[0]`, `len(rules)`, `for rule in rules`.

    Attributes:
        rules: tuple of `Rule`, [N].
        feature_names: tuple of str, [F]. The data's columns, or a sampler's players.
        stats: mapping: "search", its "reason", "model_rows", "seconds", "seed", ...; see `pick`.
        provenance: mapping. The method, its settings and the versions of the libraries.
        instance_index: pandas Index [N] or None. The index of the explained frame, if it is not
            0..N-1.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> red = xj.Rule(["c = red"], [(0, ("red",))], "stop", 1.0, None, 0.5, True, 2, "exact")
        >>> rules = xj.Rules((red,), ("c",))
        >>> print(xj.Rules.from_json(rules.to_json())[0])
        IF c = red THEN PREDICT stop WITH PRECISION 100% AND COVERAGE 50%
        >>> rules.pick(1, np.array([["red"], ["green"]])).stats["covered"]
        (0.5,)
    """

    rules: tuple[Rule, ...]
    feature_names: tuple[str, ...] = ()
    stats: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    instance_index: Any = None

    def __post_init__(self) -> None:
        labels, _ = checked_labels(self.instance_index, None, len(self.rules))
        object.__setattr__(self, "instance_index", labels)
        for name in ("stats", "provenance"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __len__(self) -> int:
        return len(self.rules)

    @overload
    def __getitem__(self, key: int | np.integer) -> Rule: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | np.ndarray) -> Rules: ...
    def __getitem__(
        self, key: int | np.integer | slice | Sequence[int] | np.ndarray
    ) -> Rule | Rules:
        """Returns a rule; for a slice, a list of positions or a bool mask: Rules.

        Raises:
            InputError: a position is out of range, or a mask has another length.
            InputTypeError: a key has another type.
        """
        places, single = resolve(key, len(self), None, "instance")
        if single is not None:
            return self.rules[single]
        return self._at(np.arange(len(self))[places])

    @property
    def instance_names(self) -> tuple[str, ...] | None:
        """The labels of `instance_index` [N] as texts; None without it."""
        return None if self.instance_index is None else texts_of(self.instance_index)

    def _at(self, places: np.ndarray, **changes: Any) -> Rules:
        labels = None if self.instance_index is None else self.instance_index[places]
        rules = tuple(self.rules[i] for i in places)
        return replace(self, rules=rules, instance_index=labels, **changes)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled or copied.
        facts = dict(self.stats), dict(self.provenance)
        return (Rules, (self.rules, self.feature_names, *facts, self.instance_index))

    def __repr__(self) -> str:
        shown = "".join(f"\n  {rule}" for rule in self.rules[:3])
        more = "\n  ..." if len(self) > 3 else ""
        return f"{self._head()}{shown}{more}"

    def to_dataframe(self) -> Any:
        """Returns a pandas DataFrame with one row per instance, and the explained frame's index.

        It needs `pip install "xaijax[data]"`.
        """
        pandas = require("pandas", "xaijax[data]")
        shown = ("prediction", "precision", "precision_lower", "coverage", "accepted", "samples")
        lines = [
            {"rule": " AND ".join(rule.rule) or "TRUE"}
            | {"predicates": len(rule.predicates)}
            | {name: getattr(rule, name) for name in (*shown, "std_error", "search", "note")}
            for rule in self.rules
        ]
        try:
            return pandas.DataFrame(lines, self.instance_index)
        except UnicodeEncodeError:  # pyarrow's texts cannot hold half of a character
            return pandas.DataFrame(lines, self.instance_index, dtype=object)

    def to_json(self) -> str:
        """Returns all rules as JSON text, which `Rules.from_json` reads.

        The labels of the instances are numbers, texts, bools, dates or durations there; others are
        kept as texts.
        """
        rules = [rule.as_dict() for rule in self.rules]
        facts = self.stats, self.provenance
        return rules_json.written(self.feature_names, rules, *facts, self.instance_index)

    @classmethod
    def from_json(cls, text: str) -> Rules:
        """Returns the rules in a text that `to_json` wrote; it may come from anyone.

        Args:
            text: str, the JSON.

        Raises:
            InputError: it is another text; the message names the field that does not fit.
        """
        return _rules(rules_json.read(text))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes `to_json()` into the file `path`, replacing it if it exists, and returns its
        `Path`.
        """
        return write_atomically(path, lambda file: file.write(self.to_json().encode()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Rules:
        """Returns the rules in a file that `save` wrote; it may come from anyone.

        Args:
            path: str or os.PathLike, the name of the file.

        Raises:
            FileNotFoundError: there is no such file.
            InputError: the file holds something else, is damaged, is from a newer version, or is
                not a regular file (a folder, a pipe, a device). The message names the field.
            InputTypeError: `path` is not a path.
        """
        source = file_to_read(path)
        return _rules(rules_json.read(source.read_bytes(), source))

    def to_html(self) -> str:
        """Returns HTML of all rules that loads nothing: sentences, with bars below them."""
        return rules_html(self.rules)

    def _repr_html_(self) -> str:
        return rules_card(self, self._head())

    def _head(self) -> str:
        held = sum(rule.accepted for rule in self.rules)
        search = f"{self.stats['search']} search, " if "search" in self.stats else ""
        return f"Rules({len(self):,} instances, {search}{held:,} accepted)"

    def pick(self, k: int, X: Rows) -> Rules:
        """Picks a few accepted rules that together apply to many rows: submodular pick.

        Rules are chosen one after the other. Each is the one that applies to most rows to which no
        chosen rule applies yet, the first of equal ones (Ribeiro, Singh and Guestrin 2018, section
        5).

        Args:
            k: int, at least 1. The largest number of rules to choose; fewer if no other rule adds a
                row.
            X: rows [M, F], as for `Rule.applies`.

        Returns:
            `Rules` in the order of choice. `stats["covered"][i - 1]` is the share of X to which one
            of the first i applies; `stats["picked"]` holds their positions in these rules.

        Raises:
            InputError, InputTypeError: k or X is not accepted.
        """
        k = checks.whole_number(k, "k")
        held = [i for i, rule in enumerate(self.rules) if rule.accepted]
        applies = np.array([self.rules[i].applies(X) for i in held], bool)
        covered = np.zeros(applies.shape[1] if held else 0, bool)
        chosen: list[int] = []
        shares: list[float] = []
        for _ in range(min(k, len(held))):
            gain = (applies & ~covered).sum(axis=1)
            best = int(gain.argmax())
            if gain[best] == 0:
                break
            covered |= applies[best]
            chosen.append(held[best])
            shares.append(float(covered.mean()))
        stats = {**self.stats, "picked": tuple(chosen), "covered": tuple(shares)}
        return self._at(np.array(chosen, np.int64), stats=stats)


def _rules(content: rules_json.Content) -> Rules:
    """The `Rules` from the result of `rules_json.read`."""
    names, rules, *facts = content
    return Rules(tuple(Rule(names=names, **rule) for rule in rules), names, *facts)


def refuse_types(value: Any, name: str) -> Rules:
    """Returns `value`, or raises InputTypeError if it is not Rules."""
    if not isinstance(value, Rules):
        raise InputTypeError(f"{name} must be Rules, from AnchorExplainer.explain, got {value!r}.")
    return value
