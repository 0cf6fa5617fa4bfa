"""What games and methods ask of a model, and what a probe tells: the contracts of `xaijax.models`.

Games do not import that package, so that models and engine can be read apart.

Letters: R rows, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from xaijax.core.checks import NanColumns
from xaijax_kernels.structures.base import Structure


class Agreement(Protocol):
    """How nearly a structure answers as its model does."""

    def allowed(self, answers: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """How far rounding may take the structure from the model's answers [n, K]; [n, K]."""
        ...

    def steep(self, answers: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """What an exponential at the model's end may add to that, [n, K]."""
        ...


class Again(Protocol):
    """A host model's answers to the probe's rows, against which later ones are held."""

    def __call__(self, which: np.ndarray, found: np.ndarray, rows: int) -> None:
        """Refuse other answers found [n, K] to the probe's rows `which` [n], among so many rows."""
        ...

    def refuse_two(self, before: np.ndarray, now: np.ndarray) -> None:
        """Refuse other answers [n, K] to rows that were asked before in the same run."""
        ...


class ProbeEvidence(Protocol):
    """What the probe's trace and answers say of other programs of the same JAX model."""

    @property
    def name(self) -> str:
        """Of the model, for messages."""
        ...

    @property
    def asked(self) -> tuple[Any, np.ndarray] | None:
        """(parameters, the probe's rows) of the model that answered last; None: none did."""
        ...

    @property
    def answer(self) -> np.ndarray:
        """The probe's answers, [r, K]; where some were asked."""
        ...

    def gap(self, wanted: np.ndarray, found: np.ndarray) -> tuple[float, int] | None:
        """(largest difference, first place) of two answers [n, K] to the same rows by different
        programs; None: they agree.
        """
        ...

    def __call__(self, trace: Any, rows: int) -> None:
        """Refuse another trace, for so many rows, whose answers differ."""
        ...


class Findings(Protocol):
    """What the probe found."""

    @property
    def outputs(self) -> int:
        """K."""
        ...

    @property
    def scalar(self) -> bool:
        """Whether the model answers [R], or [R, 1]."""
        ...

    @property
    def output_names(self) -> tuple[str, ...] | None:
        """[K]"""
        ...

    @property
    def answer_dtype(self) -> str:
        """Of the model's own answer, before any cast."""
        ...

    @property
    def jaxpr(self) -> Any:
        """The trace of the model on `rows` rows; None on the host."""
        ...

    @property
    def closed(self) -> Any:
        """The same with the constants that it holds."""
        ...

    @property
    def rows(self) -> int:
        """That the probe was traced for."""
        ...

    @property
    def noise(self) -> np.ndarray | None:
        """Standard deviation of one answer, [K]; None: deterministic."""
        ...

    @property
    def compile_seconds(self) -> float:
        """That the probe took to compile."""
        ...

    @property
    def structure(self) -> Structure | None:
        """Declared or found; None: nothing is known."""
        ...

    @property
    def agreement(self) -> Agreement | None:
        """Of the structure, where there is one."""
        ...

    @property
    def look(self) -> ProbeEvidence | None:
        """At other programs; None: they are not looked at."""
        ...

    @property
    def coarse(self) -> bool:
        """Whether answers of whole numbers lose digits, as the probe has warned."""
        ...

    @property
    def programs(self) -> dict[Any, Any] | None:
        """In JAX: what is compiled of the model; all that are traced to one program share it."""
        ...

    @property
    def again(self) -> Again | None:
        """On the host: refuses other answers to the probe's rows among more rows."""
        ...

    @property
    def changed(self) -> Callable[[], bool] | None:
        """On the host: whether the estimator is another than was probed; None: not known."""
        ...


class Comparison(Protocol):
    """Of a translation with its estimator."""

    def to_host(self, reason: str) -> None:
        """The estimator answers from now on."""
        ...


class AskedModel(Protocol):
    """A model as the engine asks it; `models.Model` says more of each member."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def backend(self) -> str:
        """ "jax" or "host", where it runs."""
        ...

    @property
    def loop(self) -> str:
        """ "jax" or "host": which of the model's functions is set. A translation keeps "jax" also
        where it was left for its estimator.
        """
        ...

    @property
    def reader(self) -> object | None:
        """What reads rows for a translation; None: the model takes them as they are."""
        ...

    @property
    def apply(self) -> Callable[..., Any] | None:
        """In JAX: apply(params, rows) -> [R] or [R, K]."""
        ...

    @property
    def params(self) -> Any:
        """Its first argument, a pytree."""
        ...

    @property
    def compiled(self) -> dict[Any, Any]:
        """The model's programs, which all its explainers share."""
        ...

    @property
    def precision(self) -> str:
        """ "float32", "tf32" or "float64"."""
        ...

    @property
    def deterministic(self) -> bool:
        """Whether a row has one answer."""
        ...

    @property
    def nonfinite(self) -> str:
        """ "raise" or "propagate": what a NaN or inf answer does."""
        ...

    @property
    def allow_nan(self) -> bool | NanColumns:
        """Whether rows may hold NaN."""
        ...

    @property
    def thread_safe(self) -> bool:
        """On the host: whether calls may run beside each other."""
        ...

    @property
    def max_rows(self) -> int | None:
        """On the host: rows in one call at most."""
        ...

    @property
    def estimator(self) -> Any:
        """The fitted object that is asked; None: a function or a network."""
        ...

    @property
    def network(self) -> bool:
        """Whether it is a module of a neural library."""
        ...

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """Of one instance; None: a row of a table."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Of its columns, where they are known."""
        ...

    @property
    def offset(self) -> np.ndarray | None:
        """What its answers are short of, float64 [] or [K]; None: nothing."""
        ...

    @property
    def comparison(self) -> Comparison | None:
        """Of a translation with its estimator."""
        ...

    @property
    def original(self) -> AskedModel | None:
        """The estimator on the host, of a translation."""
        ...

    def settled(self, rows: tuple[Any, ...] = ()) -> AskedModel:
        """The one that answers, by what its comparison with the estimator has come to."""
        ...

    def hold(self, rows: Any, codes: np.ndarray, of_first: bool, shared: bool = False) -> None:
        """Compare a translation with its estimator on rows about to be explained; shared: on a
        background, which is not compared again where it agrees.
        """
        ...

    def refuse_changed(self) -> None:
        """Raise InputError if a translated estimator has changed since."""
        ...

    def refuse_codes(self) -> None:
        """Raise ModelOutputError where its answers are class labels other than 0 and 1."""
        ...

    def row_dtype(self, shape: tuple[int, ...], given: np.dtype) -> np.dtype:
        """In JAX: the dtype in which it takes rows [R, *shape] of the dtype given."""
        ...

    def of_codes(self, table: Any) -> AskedModel:
        """The one that is asked of what this table makes of codes."""
        ...

    def coded(self, table: Any) -> Any:
        """The table that reads rows for this model, of one that reads them for the host."""
        ...

    def probe(self, rows: Any) -> Findings:
        """What must be known before it runs, asked of a few rows."""
        ...

    def answer(self, rows: Any, first: int, outputs: int) -> np.ndarray:
        """On the host: the checked answer to one call, float64 [R, K]."""
        ...

    def both_answers(
        self,
        structure: Structure,
        rows: Any,
        hybrids: tuple[Any, np.ndarray] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """(the structure's answers to whole rows, the model's own), float64 [R, K].

        hybrids: (donors, bool [R, F] which columns are kept of the rows); None: all of them.
        """
        ...

    def sensitivity(self, structure: Structure, rows: Any) -> np.ndarray:
        """How far rounding may take the structure's answers to whole rows, float64 [R, K]."""
        ...

    def mark(self, findings: Any) -> str | None:
        """A text that other models do not have; None: it cannot be known again."""
        ...
