"""The host's side of a joint model: a remote model whose rows are own values and numbers of tokens.

A row is the host's columns and, per guest, the number of a token: n + 1 for "the block of instance
n", 0 for the special one. That is algorithm 2 of Wang (2019) with the arbiter in the guests' place.

Letters: N instances, R rows, H columns of the host, m guests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xaijax.core.errors import FederatedProtocolError
from xaijax.federated.host.answers import REFERENCE
from xaijax.federated.host.asking import Conversation, check_distinct
from xaijax.federated.wire.messages import VERSION, numbers, rows_of
from xaijax.federated.wire.party import Transport, ask
from xaijax.models import as_model

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
        """Let the arbiter fetch the guests' blocks of these places; numbers of tokens.

        Returns:
            Of the instances [N, m], of the reference [1, m], and how many rows guests were asked.

        Raises FederatedProtocolError and its kinds.
        """
        started = ask(self._arbiter, WHO, "Start", self._deadline, version=VERSION)
        if started.columns != columns or list(started.guests) != list(conversations):
            raise FederatedProtocolError(
                f"{WHO} joins {started.columns} host columns with guests {list(started.guests)}, "
                f"the host has {columns} and {list(conversations)}. Name them as the arbiter does."
            )
        self._run, self._most = started.run, max(1, started.most)
        listed = [REFERENCE, *places]
        opened_by = {name: one.open() for name, one in conversations.items()}
        check_distinct({name: one.state for name, one in opened_by.items()})
        for name, one in conversations.items():
            opened = opened_by[name]
            ask(
                self._arbiter,
                WHO,
                "Load",
                self._deadline,
                run=self._run,
                guest=name,
                session=opened.session,
                tokens=one.token_bytes(opened, listed),
                most=opened.most,
            )
        m = len(conversations)
        answers = np.repeat(np.arange(1.0, len(places) + 1)[:, None], m, axis=1)
        return answers, np.zeros((1, m)), m * len(listed)

    def _predict(self, rows: np.ndarray) -> np.ndarray:
        """The joint model's answer to rows [R, H + m]; [R] or [R, K]."""
        found, width = [], 0
        for start in range(0, len(rows), self._most):
            part = rows[start : start + self._most]
            said = ask(
                self._arbiter,
                WHO,
                "Predict",
                self._deadline,
                run=self._run,
                rows=len(part),
                values=numbers(part),
            )
            if found and said.width != width:
                raise FederatedProtocolError(
                    f"{WHO}: an answer of width {said.width} follows one of width {width}; its "
                    "model must answer all rows alike."
                )
            width = said.width
            values = rows_of(said.values, len(part), max(1, said.width), f"{WHO}: answer")
            found.append(values if said.width else values[:, 0])
        return np.concatenate(found)
