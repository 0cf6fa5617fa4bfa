"""`Arbiter`: a third process, which both sides trust, in which a joint model runs.

It gets blocks of rows from guests under tokens that it cannot resolve, and rows of the host's
columns from the host; it answers with the model's outputs, and keeps a run's blocks in memory only.

Letters: N instances, R rows, F columns of the model, H columns of the host, m guests.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import FederatedProtocolError, InputError
from xaijax.core.public import public_class
from xaijax.core.typing import AnyModel
from xaijax.federated.guest.sessions import Sessions
from xaijax.federated.in_process.parties import parties_of
from xaijax.federated.wire import party
from xaijax.federated.wire.messages import LARGEST, VERSION, numbers, rows_of
from xaijax.federated.wire.tokens import split_tokens
from xaijax.models import model_of
from xaijax.players.players import column_labels

MOST_RUNS = 8  # of one host; the oldest gives way


@dataclass
class _Run:
    names: party.Names
    touched: float = 0.0
    blocks: dict[str, np.ndarray] = field(default_factory=dict)  # guest -> [N + 1, its columns]
    loading: set[str] = field(default_factory=set)  # guests that are being asked


@public_class
class Arbiter:
    """A third process, trusted by all parties, that runs a joint model on all columns.

    A joint model is one that cannot be split into parts. It needs all columns in one process, the
    arbiter. Guests send their rows under tokens: codes that stand for identifiers and that the
    arbiter cannot resolve. The host sends rows of its columns and gets the model's outputs. The
    arbiter sees all rows that are explained; it keeps those of a run in memory only.

    Args:
        model: a `Model` of `as_model`, or what `as_model` takes without options, on rows [R, F] of
            all columns.
        columns: int, at least 2: F.
        guests: {"name": [positions of its columns]}, from 0. The other columns are the host's. Each
            party needs at least one.
        transports: {"name": transport} to each guest: a `Connection`, or `InMemory`. The guest's
            policy must name this arbiter (`Policy(arbiter=)`).
        hosts: names of certificates that may ask. If empty, any name that the arbiter's authority
            signed may ask.
        deadline: float, in seconds. The time limit of one request to a guest.

    Raises:
        InputError, InputTypeError: an argument is not accepted.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> fd, people = xj.federated, ["ann", "ben"]
        >>> bank = np.array([[1.0], [3.0]])
        >>> shop = np.array([[0.0, 2.0, 1.0], [4.0, 0.0, 1.0]])
        >>> policy = fd.Policy(fewest=2, arbiter="arbiter")
        >>> guest = fd.Guest(shop, people, None, policy=policy)
        >>> joint = xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2])
        >>> to_guest = {"shop": fd.InMemory(guest, "arbiter")}
        >>> arbiter = fd.Arbiter(joint, 4, {"shop": [1, 2, 3]}, to_guest)
        >>> guests = {"shop": fd.InMemory(guest)}
        >>> host = fd.Host(None, bank, guests, people, arbiter=fd.InMemory(arbiter))
        >>> host(bank).values.round(3)
        array([[-1., -2.],
               [ 3.,  4.]])

    References:
        Wang, "Interpret federated learning with Shapley values" (2019), algorithm 2.
    """

    def __init__(
        self,
        model: AnyModel,
        columns: int,
        guests: Mapping[str, Iterable[int | str]],
        transports: Mapping[str, party.Transport],
        hosts: Sequence[str] = (),
        deadline: float = 30.0,
    ) -> None:
        self._model, self._F = model_of(model), checks.whole_number(columns, "columns", least=2)
        self._parties = parties_of(guests, column_labels((self._F,)))
        names = list(self._parties.guests)
        if set(transports) != set(names) or not transports:
            raise InputError(f"transports: {sorted(transports)}; one to each of {names} is needed.")
        self._transports, self._hosts = dict(transports), tuple(hosts)
        self._deadline = checks.positive(deadline, "deadline")
        self._runs = Sessions(MOST_RUNS, "run")
        self._lock = threading.Lock()  # of the runs; neither guests nor the model are waited for
        self._predicting = threading.Lock()

    def handle(
        self, method: str, names: party.Names, data: bytes, alive: party.Alive = party.waiting
    ) -> bytes:
        """Answers one request. Transports call it; it never raises.

        Args:
            method: the name of the request: "Start", "Load" or "Predict".
            names: the names in the asking party's certificate.
            data: the bytes of the request.
            alive: a function that says whether the asking party still waits.

        Returns:
            The bytes of the reply, which may be a refusal.
        """
        answerers: dict[str, party.Answerer] = {
            "Start": self._start,
            "Load": lambda names, request: self._load(names, request, alive),
            "Predict": lambda names, request: self._predict(names, request, alive),
        }
        return party.handled(answerers, _log, method, names, data)

    def close(self) -> None:
        """Forgets all blocks."""
        with self._lock:
            self._runs = Sessions(MOST_RUNS, "run")

    @property
    def most(self) -> int:
        """The maximum number of rows in one request to the model."""
        return (LARGEST - 1024) // (8 * max(self._F, 64))

    def _start(self, names: party.Names, request: Any) -> dict[str, Any]:
        party.check_version(request.version)
        party.check_hosts(self._hosts, names)
        with self._lock:
            run = self._runs.add(_Run(names))
        return {
            "version": VERSION,
            "run": run,
            "columns": len(self._parties.host),
            "guests": list(self._parties.guests),
            "most": self.most,
        }

    def _load(self, names: party.Names, request: Any, alive: party.Alive) -> dict[str, Any]:
        guest, tokens = request.guest, split_tokens(request.tokens)
        with self._lock:
            run = self._runs.find(request.run, names)
            if guest not in self._transports or guest in run.blocks or guest in run.loading:
                raise party.Refused("message", "guest: unknown, or loaded already in this run.")
            if len(tokens) < 2:
                raise party.Refused("message", "tokens: the special one and at least one other.")
            run.loading.add(guest)
        try:
            block = self._block(guest, tokens, request, alive)
            with self._lock:
                run.blocks[guest] = block
        finally:
            run.loading.discard(guest)
        return {"count": len(tokens)}

    def _block(
        self, guest: str, tokens: Sequence[bytes], request: Any, alive: party.Alive
    ) -> np.ndarray:
        """A guest's rows in the order of the tokens, [N + 1, its columns]."""
        width, blocks = len(self._parties.guests[guest]), []
        fits = max(1, min(request.most, (LARGEST - 1024) // max(32, 8 * width)))
        who = f"guest {guest!r}"
        # Sorted by token, which reveals nothing about the host's rows to the guest.
        order = np.array(sorted(range(len(tokens)), key=lambda place: tokens[place]))
        for places in np.array_split(order, -(-len(tokens) // fits)):
            fields = {"tokens": b"".join(tokens[place] for place in places)}
            fields["session"] = request.session
            party.check_alive(alive)
            try:
                said = party.ask(self._transports[guest], who, "Block", self._deadline, **fields)
                if said.columns != width:
                    raise FederatedProtocolError(
                        f"{who}: its rows have {said.columns} columns, the model takes {width}."
                    )
                blocks.append(rows_of(said.values, len(places), width, f"{who}: rows"))
            except FederatedProtocolError as error:
                codes = [code for code, kind in party.KINDS.items() if isinstance(error, kind)]
                raise party.Refused([*codes, "arbiter"][0], str(error)) from None
        return np.concatenate(blocks)[np.argsort(order)]

    def _predict(self, names: party.Names, request: Any, alive: party.Alive) -> dict[str, Any]:
        with self._lock:
            loaded = dict(self._runs.find(request.run, names).blocks)
        absent = [guest for guest in self._parties.guests if guest not in loaded]
        if absent:
            raise party.Refused("message", f"guests: the rows of {absent} are not loaded (Load).")
        H, m = len(self._parties.host), len(self._parties.guests)
        if not 0 < request.rows <= self.most:
            raise party.Refused("size", f"rows: {request.rows:,} in a request; 1 to {self.most:,}.")
        tokens = rows_of(request.values, request.rows, H + m, "rows")
        rows = np.empty((len(tokens), self._F))
        rows[:, list(self._parties.host)] = tokens[:, :H]
        for column, (guest, places) in enumerate(self._parties.guests.items(), H):
            block, numbered = loaded[guest], tokens[:, column]
            if not ((numbered >= 0) & (numbered < len(block)) & (numbered % 1 == 0)).all():
                raise party.Refused("token", f"rows: a token's number of {guest!r} is not there.")
            rows[:, list(places)] = block[numbered.astype(np.int64)]
        with self._predicting:
            party.check_alive(alive)
            answers = self._model.predict(rows)
        width = 0 if answers.ndim == 1 else answers.shape[1]
        return {"width": width, "values": numbers(answers)}


def _log(event: str, names: party.Names, code: str, cause: str) -> None:
    """Logs the location of an internal error, by `logging` (on the screen by default)."""
    if cause:
        logging.getLogger("xaijax.federated").error("%s: internal error: %s", event, cause)
