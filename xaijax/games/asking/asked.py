"""What `ends`, `whole_rows` and `refuse` use of `Questions`, and of `Game`.

Letters: N instances, P players, C code columns, K scores.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from xaijax.games.engine.loop import Instances
from xaijax.games.engine.setting import Probed, Setting
from xaijax.games.measure.quantity import Quantity


class WholeRows(Protocol):
    """The model's own answers to the instances, and what rounding allows; float64 [N, K] each."""

    @property
    def answers(self) -> np.ndarray:
        """The answers."""
        ...

    @property
    def allowed(self) -> np.ndarray:
        """How far rounding may take the structure's from them."""
        ...

    @property
    def base(self) -> np.ndarray:
        """The mean score of the donors, by the model's own answers, [K]."""
        ...

    @property
    def base_allowed(self) -> np.ndarray:
        """How far rounding may take the structure's mean from it, [K]."""
        ...


class Asked(Protocol):
    """What `questions.Questions` tells and answers."""

    @property
    def setting(self) -> Setting:
        """What is asked about, by which limits."""
        ...

    @property
    def probed(self) -> Probed:
        """What is known of the model."""
        ...

    @property
    def N(self) -> int:
        """Instances."""
        ...

    @property
    def P(self) -> int:
        """Players."""
        ...

    @property
    def codes(self) -> np.ndarray:
        """Of the instances, [N, C]."""
        ...

    @property
    def crosses(self) -> bool:
        """Whether the model's structure answers instances crossed with donors."""
        ...

    @property
    def whole(self) -> WholeRows:
        """Where a structure answers hybrids."""
        ...

    def answered(self, rows: int) -> None:
        """Count rows that were answered without the model."""
        ...

    def with_offset(self, answers: np.ndarray) -> np.ndarray:
        """Answers with what the model's are short of."""
        ...

    def instances(self, here: np.ndarray) -> Instances:
        """Codes of the instances `here`, with f(x) where the score looks at it."""
        ...

    def rows_asked(
        self,
        here: np.ndarray,
        instance: np.ndarray,
        donor: np.ndarray,
        coalition: np.ndarray,
        masks: np.ndarray,
        scored: bool = True,
    ) -> np.ndarray:
        """Scores of single hybrids, float64 [R, K]."""
        ...


class AskedGame(Protocol):
    """What `game.Game` tells."""

    @property
    def setting(self) -> Setting:
        """What is asked about, by which limits."""
        ...

    @property
    def P(self) -> int:
        """Players."""
        ...

    @property
    def quantity(self) -> Quantity:
        """What is measured."""
        ...

    @property
    def ask(self) -> Asked:
        """The questions of this game."""
        ...
