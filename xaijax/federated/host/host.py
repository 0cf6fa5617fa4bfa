"""`Host`: the party that explains. It asks guests once, and then is the in-process explainer.

Letters: N instances, H columns of the host, P players, L identifiers of the aligned list, E
numbers of a guest's answer, R rows, m guests.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import FederatedProtocolError, InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.core.typing import AnswerPath, Devices, Progress, Rows
from xaijax.estimators.driver import EstimatorName
from xaijax.federated.host.answers import REFERENCE, GuestAnswers, alone_in
from xaijax.federated.host.queries import Conversation, check_distinct
from xaijax.federated.in_process.explainer import FederatedExplainer
from xaijax.federated.in_process.reference import END_WEIGHT, reference_of
from xaijax.federated.split.model import SplitModel, answer_labels
from xaijax.federated.split.parts import columns_by_name
from xaijax.federated.wire import psi
from xaijax.federated.wire.messages import VERSION
from xaijax.federated.wire.messages import numbers as numbers_of_message
from xaijax.federated.wire.messages import rows_of as rows_of_message
from xaijax.federated.wire.party import Transport, ask
from xaijax.federated.wire.tokens import identifiers_of
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.models import as_model
from xaijax.players.index import IndexLike
from xaijax.results.explanation import Explanation
from xaijax.results.files.npz import as_path
from xaijax.tables.frames import entries_at, frame_labels, is_labelled
from xaijax.tables.rows import rows_of
from xaijax.tables.tree import is_tree

BATCH = 256


@public_class
class Host:
    """The party that explains: federated Shapley values with guests in other processes.

    Columns belong to several parties. The host's columns are one player each; all columns of a
    guest are one player together, and get one united value. The value of a coalition is the model's
    answer when the columns of its players show the instance and all others show the reference, as
    in `FederatedExplainer`.

    Each guest is asked once for its answer g(x) to an instance x, and once for g(reference). The
    host builds all coalitions from these, on the rows [host's columns | guests' answers]. No guest
    therefore learns which coalitions are asked, nor labels, the host's rows, the reference of the
    host's columns or the explanation. Answers are kept as long as this object lives (`forget` drops
    them). Explaining the same instances again needs no request, and after a `FederatedPeerLost`
    only missing answers are requested. With an arbiter nothing is kept.

    Args:
        model: `SplitModel`. None with `arbiter`, which holds a joint model.
        background: rows [B, H] of the host's H columns, from which the reference is made: an array
            or a frame. If the model has `feature_names`, frames are read by name: background,
            reference and instances with columns in another order are put in order, and other
            columns are refused.
        guests: {"name": transport}, with the names of the model. A transport is a `Connection`, or
            `InMemory` in one process.
        identifiers: texts or integers [L], all different: the aligned list, whose
            identifiers the host and every guest have. `align` can find it.
        reference: "median" of the background; "na" (missing) for models with allow_nan=True; or one
            row [H]. It is of the host's columns; guests have references of their own.
        index: "shapley", "banzhaf" or another index of `Explainer`.
        estimator: "auto", "exact", "permutation", "kernel" or "gaussian-process" as in `Explainer`,
            or "wls" (weighted least squares) as in `FederatedExplainer`.
        end_weight: float. It is for "wls" only: the weight of the empty and of the full coalition.
        version: text, {"guest": text} or None. It is the model version that guests are asked for.
            None: the only one that a guest answers is asked for.
        arbiter: the transport to an `Arbiter`, the third process in which a joint model runs, or
            None.
        batch: int, at least 2. It is the largest number of tokens in one request to a guest; a
            token stands for an instance or the reference. A guest may have a lower limit.
        deadline: float, in seconds. It limits how long one request may take.
        answers: a folder or None. The folder keeps guests' answers over restarts; it names rows by
            their place in the list, and holds no identifier. One host at a time can use it. None:
            they are in memory only.
        budget: int or None. It is the number of coalitions for each sampled instance, as in
            `Explainer`.
        link: "identity", "logit" or a function of arrays, of the model's answer.
        seed: int, for sampled estimators.
        {batch_size}
        {memory}
        {path}
        tolerance: float or None. How far a value may be off, with 95 % probability,
            as in `Explainer`.

    Attributes:
        model: the model that the explainer asks, on rows [host's columns | guests' answers].
        interaction_: None. It would need values of a guest's single columns, which no guest gives.

    Raises:
        InputError, InputTypeError: an argument is not accepted. No party is asked before the
            first explanation.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> people = ["ann", "ben"]
        >>> bank = np.array([[1.0], [3.0]])
        >>> shop = np.array([[0.0, 2.0, 1.0], [4.0, 0.0, 1.0]])
        >>> split = xj.federated.split_logistic([1.0, 0.5, -1.0, 2.0], 0.0, {"shop": [1, 2, 3]})
        >>> policy = xj.federated.Policy(fewest=2)
        >>> guest = xj.federated.Guest(shop, people, split.parts["shop"], policy=policy)
        >>> guests = {"shop": xj.federated.InMemory(guest)}
        >>> host = xj.federated.Host(split.host, bank, guests, people, link="logit")
        >>> explanation = host(bank)
        >>> explanation.feature_names
        ('x0', 'shop')
        >>> explanation.values.round(3)
        array([[-1., -2.],
               [ 1.,  2.]])

        Ben's three entries at the shop add 2 to his log odds.

    References:
        Wang, "Interpret federated learning with Shapley values" (2019), algorithm 2.
    """

    interaction_ = None  # it asks single columns, and those of a remote guest cannot be asked

    def __init__(
        self,
        model: SplitModel | None,
        background: Rows,
        guests: Mapping[str, Transport],
        identifiers: Iterable[str | int],
        reference: Literal["median", "na"] | Rows = "median",
        index: IndexLike = "shapley",
        estimator: EstimatorName | Literal["wls"] = "auto",
        end_weight: float = END_WEIGHT,
        version: str | Mapping[str, str] | None = None,
        arbiter: Transport | None = None,
        batch: int = BATCH,
        deadline: float = 30.0,
        answers: str | Path | None = None,
        budget: int | None = None,
        link: Literal["identity", "logit"] | Callable[[Any], Any] = "identity",
        seed: int = 0,
        batch_size: int | Literal["auto"] = "auto",
        max_memory: int | None = None,
        devices: Devices = None,
        tolerance: float | None = None,
        tile: int | None = None,
        path: AnswerPath = "auto",
    ) -> None:
        check_model(model, arbiter)
        transports = self._transports = transports_of(guests, model)
        H: int | None = None if model is None else model.columns
        self._identifiers = identifiers_of(identifiers, "identifiers")
        self._place = {identifier: place for place, identifier in enumerate(self._identifiers)}
        self._batch = checks.whole_number(batch, "batch", least=2)
        self._deadline = checks.positive(deadline, "deadline")
        self._conversations = {
            name: Conversation(
                name,
                transport,
                self._identifiers,
                version_of(version, name, transports),
                self._deadline,
                release=None if model is None else model.release or "",
                alone=len(transports) == 1,
            )
            for name, transport in transports.items()
        }
        folder = self._folder = None if answers is None else as_path(answers, "answers")
        self._answers = {
            name: GuestAnswers(folder and folder / f"{place}.answers", name, self._identifiers)
            for place, name in enumerate(transports)
        }
        self._joint = None if arbiter is None else JointRun(arbiter, self._deadline)
        if self._joint is not None:
            self.model, self._widths, self._names = (
                self._joint.model,
                dict.fromkeys(guests, 1),
                None,
            )
        else:
            assert model is not None  # see `check_model`
            self.model, self._widths, self._names = model.model, model.widths, model.feature_names
        self._labels = answer_labels(self._widths)  # of columns with answers, in frames
        background = by_name(background, self._names, "background")
        reference = by_name(reference, self._names, "reference")
        self._row, self._reference_kind = host_reference(reference, background, self.model)
        if model is None and rows_of(self._row).is_frame:
            raise InputError("background: an arbiter accepts only numbers. Say .to_numpy().")
        columns = self._row.shape[1]
        if H not in (None, columns):
            raise InputError(
                f"background has {columns} columns, the model's host side {H}. Give the host's, in "
                "its order."
            )
        self._common: dict[str, Any] = {
            "index": index,
            "estimator": estimator,
            "end_weight": end_weight,
            "budget": budget,
            "link": link,
            "seed": seed,
            "batch_size": batch_size,
            "max_memory": max_memory,
            "devices": devices,
            "tolerance": tolerance,
            "tile": tile,
            "path": path,
        }
        # Checks all of these now; the guests' references are put in when they are known.
        self._off = np.zeros((1, sum(self._widths.values())))
        self._explainer = self._explainer_of(self._off)

    def __call__(
        self,
        X: Rows,
        identifiers: Iterable[str | int] | None = None,
        progress: Progress = None,
    ) -> Explanation:
        """Explains the instances X.

        Args:
            X: rows [N, H] of the host's columns, of the background's kind.
            identifiers: texts or integers [N], those of the rows. None: X has a row for each
                identifier of the aligned list, in its order.
            progress: None (a bar in terminals and notebooks once a run takes a while), True or
                False.

        Returns:
            An `Explanation` with values [N, P], or [N, P, K] for a model with K outputs; guests are
            the last players. stats["messages"] counts the requests to guests, and
            stats["rows_asked"] the instances and references asked for.

        Raises:
            InputError, InputTypeError: rows or identifiers that are not accepted. No party is asked
                then.
            FederatedPolicyError: a guest's policy does not allow a request.
            FederatedProtocolError: a party's answer does not follow the protocol, or the party is
                not the requested guest, is of another release of the model, or has changed since
                its first answers.
            FederatedPeerLost: a party cannot be reached, or did not answer in time. Earlier answers
                are kept.

        Errors of `FederatedExplainer` are raised too.
        """
        _refuse_identifiers(X)
        X = by_name(X, self._names, "X")
        places = self._places(X, identifiers)
        # Guests count queries, so rows that cannot be explained must not cost any.
        blank = np.zeros((len(places), self._off.shape[1]))
        self._explainer.check(joined(X, blank, self._labels))
        messages = sum(guest.messages for guest in self._conversations.values())
        if self._joint is None:
            answers, off, count = self._asked(places)
        else:
            columns = self._row.shape[1]
            answers, off, count = self._joint.loaded(self._conversations, places, columns)
        if not np.array_equal(off, self._off):
            self._off, self._explainer = off, self._explainer_of(off)
        explanation = self._explainer(joined(X, answers, self._labels), progress)
        provenance = dict(explanation.provenance) | {
            "reference": self._reference_kind,
            "remote": {name: stored.version for name, stored in self._answers.items()},
        }
        messages = sum(guest.messages for guest in self._conversations.values()) - messages
        stats = dict(explanation.stats) | {"messages": messages, "rows_asked": count}
        return dataclasses.replace(explanation, stats=stats, provenance=provenance)

    def align(self) -> tuple[bytes, ...]:
        """Finds the identifiers that all parties have, by private set intersection with each guest.

        With one guest, both then know the common identifiers and how many the other has, and
        nothing else. With several, the guests are asked in turn: the host and an early guest also
        learn identifiers that they share and a later guest lacks. The common ones become the
        aligned list, here and at the guests, in the order of the list that was given. All sides
        need openmined-psi, and guests a policy with intersection=True.

        Returns:
            The common identifiers as UTF-8 bytes.

        Raises:
            InputError: no identifier is common, or answers of another list are kept (`forget`).
            FederatedPolicyError, FederatedProtocolError, FederatedPeerLost: as in a call.
            ImportError: openmined-psi is not installed.
        """
        common = self._identifiers
        for _ in range(2 if len(self._conversations) > 1 else 1):  # once more with what all have
            for name, guest in self._conversations.items():
                common = psi.intersect(self._transports[name], guest.who, common, self._deadline)
                if not common:
                    raise InputError(f"identifiers: none is common with guest {name!r}.")
        for held in self._answers.values():  # all or nothing: places are those of one list
            held.check_list(common)
        self._identifiers = common
        self._place = {identifier: place for place, identifier in enumerate(common)}
        for name, guest in self._conversations.items():
            guest.identifiers = common
            self._answers[name].realign(common)
        return common

    def forget(self) -> None:
        """Drops the guests' answers; the next explanation asks for all again."""
        for stored in self._answers.values():
            stored.forget()

    def __repr__(self) -> str:
        guests = ", ".join(self._conversations)
        kind = "split model" if self._joint is None else "joint model at an arbiter"
        return f"Host({self._row.shape[1]} columns; guests: {guests}; {kind})"

    def _places(self, X: Any, identifiers: Any) -> list[int]:
        """Places of the rows X in the aligned list; [N]."""
        N = checks.rows_given(X)
        if N == 0:
            raise InputError("X has 0 rows; at least 1 is needed.")
        if identifiers is None:
            if N != len(self._identifiers):
                raise InputError(
                    f"X has {N:,} rows, the aligned list {len(self._place):,} identifiers. Say "
                    "identifiers= of the rows."
                )
            return list(range(N))
        named = identifiers_of(identifiers, "identifiers")
        if len(named) != N:
            raise InputError(f"identifiers has {len(named):,} entries for {N:,} rows; one each.")
        unknown = sum(identifier not in self._place for identifier in named)
        if unknown:
            raise InputError(
                f"identifiers: {unknown:,} of {N:,} are not in the aligned list. Explain rows of "
                "common ones only."
            )
        return [self._place[identifier] for identifier in named]

    def _asked(self, places: Sequence[int]) -> tuple[np.ndarray, np.ndarray, int]:
        """All guests' answers side by side: of the instances, of the reference; how many asked."""
        of_guests, guests = self._answers, self._conversations
        with alone_in(self._folder, of_guests.values()):
            started = {  # all guests are connected and compared before one is asked
                name: guest.start(of_guests[name], places, self._widths[name], self._batch)
                for name, guest in guests.items()
            }
            states = {name: stored.state for name, stored in of_guests.items()}
            check_distinct(states | {n: s.opened.state for n, s in started.items() if s})
            count = sum(guest.fetch(started[n], of_guests[n]) for n, guest in guests.items())
        answers = np.concatenate([stored.rows(places) for stored in of_guests.values()], axis=1)
        off = np.concatenate([stored.rows([REFERENCE]) for stored in of_guests.values()], axis=1)
        return answers, off, count

    def _explainer_of(self, off: np.ndarray) -> FederatedExplainer:
        row = joined(self._row, off, self._labels)
        bounds = np.cumsum([self._row.shape[1], *self._widths.values()])
        spans = zip(self._widths, bounds[:-1], bounds[1:], strict=True)
        guests = {name: list(range(start, stop)) for name, start, stop in spans}
        reference = row if rows_of(row).is_frame else row[0]
        return FederatedExplainer(self.model, row, guests, reference=reference, **self._common)


def _refuse_identifiers(X: Any) -> None:
    """Raises InputError if X is identifiers instead of rows."""
    several = isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1)
    entries = X if several else [X]
    if len(entries) and all(isinstance(entry, str | bytes | numbers.Integral) for entry in entries):
        raise InputError(
            "X takes rows [N, H] of columns, got identifiers. Say host(rows, identifiers=[...])."
        )


MODEL = "the model's host side"


def joined(rows: Any, answers: np.ndarray, labels: Sequence[str]) -> Any:
    """[host's columns | guests' answers], an array or a frame as the rows are."""
    table = rows_of(rows)
    taken = [name for name in labels if name in table.labels]
    if taken:
        raise InputError(f"X has a column {taken[0]!r}, the name of a guest's answer; rename it.")
    return table.beside(dict(zip(labels, answers.T, strict=True)))


def by_name(rows: Any, names: Sequence[str] | None, name: str) -> Any:
    """Rows of the host's columns, those of a frame or a Series in the order of `names` [H].

    Arrays, and all rows if the model has no names, are returned unchanged. Raises InputError for
    other columns.
    """
    if names is None or isinstance(rows, str) or is_tree(rows):
        return rows
    if is_labelled(rows):
        labels = [str(label) for label in rows.index]
        return entries_at(rows, columns_by_name(labels, names, name, MODEL))
    table = rows_of(rows)
    if not table.is_frame:
        return rows
    return table.columns_at(columns_by_name(frame_labels(rows, name), names, name, MODEL))


def host_reference(reference: Any, background: Any, model: Any) -> tuple[Any, str]:
    """The host's reference as one row, an array or a frame; and what it is, in a word."""
    source, kind = reference_of(reference, background, model.allow_nan)
    if not isinstance(source, Baseline):
        raise InputError(
            "reference has several rows; a guest answers for one reference. Give one row, or "
            "'median'."
        )
    row = source.as_rows(model.allow_nan)
    return (row if rows_of(row).is_frame else np.asarray(row, np.float64)), kind


def check_model(model: Any, arbiter: Any) -> None:
    """Refuses a joint model without an arbiter, and a model with one."""
    if arbiter is not None:
        if model is not None:
            raise InputError("model must be None with arbiter=, which holds the joint model.")
        if not hasattr(arbiter, "call"):
            raise InputTypeError(
                f"arbiter must be a Connection or InMemory, got {type(arbiter).__name__}."
            )
    elif not isinstance(model, SplitModel):
        raise InputError(
            f"model must be a SplitModel, got {type(model).__name__}. For a joint model give "
            "arbiter=, the transport to a third process that both trust, and model=None."
        )


def transports_of(guests: Any, model: SplitModel | None) -> dict[str, Transport]:
    """The transports by guest, in the model's order."""
    if not isinstance(guests, Mapping) or not guests:
        raise InputTypeError(
            f"guests must be a dict {{'name': transport}} with guests, got "
            f"{type(guests).__name__}. Without guests, say FederatedExplainer."
        )
    for name, transport in guests.items():
        if not hasattr(transport, "call"):
            raise InputTypeError(
                f"guests: {name!r} needs a Connection or InMemory, got {type(transport).__name__}."
            )
    if model is None:
        return dict(guests)
    if set(guests) != set(model.widths):
        raise InputError(
            f"guests are {list(guests)}, those of the model {list(model.widths)}; the same are "
            "needed."
        )
    return {name: guests[name] for name in model.widths}  # in the model's order


def version_of(version: Any, guest: str, guests: Mapping[str, Any]) -> str | None:
    """The model version to ask of one guest; None: its only one."""
    if isinstance(version, Mapping):
        unknown = [name for name in version if name not in guests]
        if unknown:
            raise InputError(f"version: there is no guest {unknown[0]!r} in {list(guests)}.")
        version = version.get(guest)
    return checks.text(version, "version", none=True)


# A row is the host's columns and, per guest, the number of a token: n + 1 for "the block of
# instance n", 0 for the special one. This is algorithm 2 of Wang (2019) with the arbiter in the
# guests' place.

WHO = "the arbiter"


class JointRun:
    """One host's use of an arbiter; `model` is what its explainer asks."""

    def __init__(self, arbiter: Transport, deadline: float) -> None:
        self._arbiter, self._deadline = arbiter, deadline
        self._run, self._most = b"", 1
        self.model = as_model(self._predict, backend="host")

    def loaded(
        self, conversations: Mapping[str, Conversation], places: Sequence[int], columns: int
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Lets the arbiter fetch the guests' blocks at these positions; returns numbers of tokens.

        Returns:
            Numbers of the instances [N, m], of the reference [1, m], and how many rows
            guests were asked.

        Raises FederatedProtocolError and its kinds.
        """
        started = self._ask("Start", version=VERSION)
        if started.columns != columns or list(started.guests) != list(conversations):
            raise FederatedProtocolError(
                f"{WHO} joins {started.columns} host columns with guests {list(started.guests)}, "
                f"the host has {columns} and {list(conversations)}. Name them as the arbiter does."
            )
        self._run, self._most = started.run, max(1, started.most)
        listed = [REFERENCE, *places]
        opened_by = {name: guest.open() for name, guest in conversations.items()}
        check_distinct({name: session.state for name, session in opened_by.items()})
        for name, guest in conversations.items():
            opened = opened_by[name]
            fields = {"session": opened.session, "most": opened.most}
            fields["tokens"] = guest.token_bytes(opened, listed)
            self._ask("Load", run=self._run, guest=name, **fields)
        m = len(conversations)
        answers = np.repeat(np.arange(1.0, len(places) + 1)[:, None], m, axis=1)
        return answers, np.zeros((1, m)), m * len(listed)

    def _ask(self, method: str, **fields: Any) -> Any:
        return ask(self._arbiter, WHO, method, self._deadline, **fields)

    def _predict(self, rows: np.ndarray) -> np.ndarray:
        """The joint model's answer to rows [R, H + m]; [R] or [R, K]."""
        answers, width = [], 0
        for start in range(0, len(rows), self._most):
            part = rows[start : start + self._most]
            values = numbers_of_message(part)
            said = self._ask("Predict", run=self._run, rows=len(part), values=values)
            if answers and said.width != width:
                message = f"{WHO}: an answer of width {said.width} follows one of width {width}."
                raise FederatedProtocolError(message)
            width = said.width
            values = rows_of_message(said.values, len(part), max(1, said.width), f"{WHO}: answer")
            answers.append(values if said.width else values[:, 0])
        return np.concatenate(answers)
