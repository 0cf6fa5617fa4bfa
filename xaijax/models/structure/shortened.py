"""`Shortened`: a model of rows with a mask, which is called without the items that it hides.

Letters: R rows, T items of a row (tokens, patches), L items of a shortened row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.compiler import compile_sound
from xaijax.core.errors import InputError
from xaijax.models.base.trace import TracedFunction
from xaijax.models.structure.agreement import EPS, HYBRIDS, difference
from xaijax.tables.tree import leaf_names

if TYPE_CHECKING:
    from xaijax.models.model import Model

# Rows are sorted by their items and cut into BLOCKS calls. Each call has the smallest of LENGTHS
# lengths that holds its rows: on average a sixteenth of T above their own.
BLOCKS = LENGTHS = 8


@partial(jax.jit, inline=False)
def xaijax_sorted_by_length(mask: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """(the items of each row of mask [R, T] in order, those that are there first, [R, T]; the rows
    of each block [blocks, R / blocks], by length; the longest of each block [blocks]; the place of
    each row in the blocks [R]).
    """
    count = mask.sum(axis=1)
    ranked = jnp.argsort(count, stable=True)
    blocks = min(BLOCKS, len(mask))
    rows = jnp.pad(ranked, (0, -len(mask) % blocks), mode="edge").reshape(blocks, -1)
    order = jnp.argsort(~mask, axis=1, stable=True)
    # Signed indices would be compared with R, and traces of other R would not be alike.
    places = rows.astype(jnp.uint32), jnp.argsort(ranked).astype(jnp.uint32)
    return order, places[0], count[rows].max(axis=1), places[1]


class Shortened:
    """`whole` of rows in several arrays, without items that the leaf `mask` hides.

    Items are the entries along the second axis of the mask and of each leaf with as many. Rows keep
    their items in order, are sorted by length and asked in a few lengths, filled up with hidden
    items. It is `whole` itself for a number of items for which `check` has found no agreement yet.
    """

    def __init__(self, whole: TracedFunction, mask: str, name: str) -> None:
        """name: that of the model, for messages."""
        self._whole, self._mask, self._name = whole, mask, name
        self._agreed: set[int] = set()  # T
        self._length = 0  # T of the last trace
        self._tried = False  # whether rows are shortened to be compared

    def anew(self) -> Shortened:
        """The same, without what was found for other parameters."""
        return Shortened(self._whole, self._mask, self._name)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Rows are shortened inside, to be compared."""
        self._tried = True
        try:
            yield
        finally:
            self._tried = False

    def __call__(self, params: Any, rows: Any) -> Any:
        """The model's outputs for rows [R, T, ...] of several arrays: [R] or [R, K]."""
        mask = self._mask_of(rows)
        self._length = T = mask.shape[1]
        if not self._tried and T not in self._agreed:
            return self._whole(params, rows)
        lengths = sorted({-(-T * part // LENGTHS) for part in range(1, LENGTHS + 1)})
        items, blocks, longest, back = xaijax_sorted_by_length(mask)

        def packed(leaf: Any) -> Any:
            leaf = jnp.asarray(leaf)
            if leaf.shape[1:2] == (T,):
                across = items.reshape(*items.shape, *[1] * (leaf.ndim - 2))
                leaf = jnp.take_along_axis(leaf, across, axis=1)
            return leaf[blocks]

        def cut(length: int) -> Callable[[Any], Any]:
            def answer(block: Any) -> Any:
                def shorter(leaf: Any) -> Any:
                    return leaf[:, :length] if leaf.shape[1:2] == (T,) else leaf

                return self._whole(params, jax.tree.map(shorter, block))

            return answer

        branches = [cut(length) for length in lengths]
        which = jnp.searchsorted(jnp.array(lengths), longest)
        calls = which, jax.tree.map(packed, rows)
        answers = jax.lax.map(lambda call: jax.lax.switch(call[0], branches, call[1]), calls)
        return answers.reshape(-1, *answers.shape[2:])[back]

    def _mask_of(self, rows: Any) -> jax.Array:
        """The mask, bool [R, T]."""
        names = leaf_names(rows)
        if self._mask not in names:
            leaves = ", ".join(map(repr, names)) if names != [""] else "one array"
            raise InputError(
                f"mask={self._mask!r} of {self._name} is no leaf of its rows, which have {leaves}. "
                "Give rows in several arrays, {'ids': [R, T], 'mask': bool [R, T]} say, and name "
                "the one that marks the items that are there."
            )
        mask = jax.tree.leaves(rows)[names.index(self._mask)]
        if mask.ndim != 2 or jnp.issubdtype(mask.dtype, jnp.floating):
            raise InputError(
                f"mask={self._mask!r} of {self._name} must be bool [R, T], one for each item; got "
                f"{mask.dtype} {list(mask.shape)}."
            )
        return jnp.asarray(mask) != 0

    def check(self, model: Model, rows: np.ndarray, programs: dict[Any, Any]) -> None:
        """Compares shortened rows with masked ones on hybrids of the probe's rows [R, F], in codes.

        programs: of the probe, which was traced in a `trial`; the one of masked rows is added.

        Raises InputError if they differ.
        """
        apply = model.apply
        assert apply is not None
        if "masked" not in programs:
            self._agreed.discard(self._length)
            # A function of its own, as JAX knows a traced one again.
            lowered = jax.jit(lambda *given: apply(*given)).lower(model.params, rows)
            programs["masked"] = compile_sound(lowered), self._length
        masked, length = programs["masked"]
        kept = np.random.default_rng(0).random((HYBRIDS, *rows.shape)) < 0.5
        found, wanted = [], []
        for hybrids in np.where(kept, rows, np.roll(rows, 1, axis=0)):
            for answers, run in ((found, programs["probe"][0]), (wanted, masked)):
                answer = np.asarray(run(model.params, hybrids), np.float64)
                answers.append(answer.reshape(len(rows), -1))
        off, _ = difference(np.concatenate(found), np.concatenate(wanted), EPS[model.precision])
        if off:
            self._agreed.discard(length)
            for key in [key for key in model.compiled if key[0] == "predict"]:
                del model.compiled[key]  # they may shorten rows
            raise InputError(
                f"mask={self._mask!r}: without the items that it hides {self._name} gives other "
                f"answers than with a mask over them ({off}), which is another question. Let its "
                "positions follow the mask, jnp.cumsum(mask, axis=1) - 1, or give them as a leaf "
                "[R, T] of the rows; or leave mask= out, and items are masked."
            )
        self._agreed.add(length)
