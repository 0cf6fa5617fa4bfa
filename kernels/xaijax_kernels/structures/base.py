"""The two halves of a structure: what the library keeps of a model, and its layer at some params.

A model that has a structure is f(X) = head(layer(X)): the layer is the first step that joins
columns, the head is what follows it. A hybrid takes each column from the instance x or from a
donor. What the columns of x and those of the donor contribute to the layer, its parts, is therefore
put together, and no row is made.

`Structure` is kept with what the probe found of a model, and holds functions of its parameters.
Programs call `Structure.of` on the parameters that they are given, which makes the `Layer`. A layer
is a pytree: `jax.eval_shape` of `of` gives its sizes, and runs nothing.

Every structure must answer every member. A layer that derives from `Layer` has those that have a
body here; the others are its own. `tests/kernels/test_structure_contract.py` goes over all layers.

Letters: F columns of the rows, C columns that the layer reads, H numbers of the layer (its units),
L numbers of a part, A answers, K outputs, R rows, n instances, V or B donors, P players, S slots of
2^s sub-coalitions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.games import semivalues

Head = Callable[[jax.Array], jax.Array]  # hidden [R, H] -> answers [R, A]
Affine = tuple[np.ndarray, np.ndarray]  # float64 A [H, K] and c [K]: hidden A + c
OfColumns = TypeVar("OfColumns", jax.Array, np.ndarray)
# A compiled loop goes by vectors of 8 or 16 numbers, up to four at once, and rounds an exponential
# or a logarithm in what is left of its end in another way.
VECTORS = 64


def whole_vectors(numbers: Any, axis: int) -> jax.Array:
    """The array with its last entry along the axis repeated, up to whole vectors of entries.

    A number's exponential then has the same bits, however many others are computed with it. What is
    made of it goes through an `optimization_barrier` before it is cut to its length again, or the
    compiler would make no more than what is left.
    """
    filled = [(0, 0)] * numbers.ndim
    filled[axis] = (0, -numbers.shape[axis] % VECTORS)
    return jnp.pad(numbers, filled, mode="edge") if filled[axis][1] else jnp.asarray(numbers)


class Structure(Protocol):
    """What of a model answers hybrids, as functions of its parameters; found, or declared.

    Hashable: programs are kept under it.
    """

    @property
    def declared(self) -> bool:
        """Whether the user declared it; it is then used whatever it saves."""
        ...

    def of(self, params: Any, /) -> Layer:
        """The layer; what it holds may be traced, or be shapes."""
        ...

    def head(self, params: Any, hidden: Any, /) -> Any:
        """The model's answers [R] or [R, K] to rows whose layer is hidden [R, H]."""
        ...

    def affine(self, params: Any, /) -> Affine | None:
        """A and c of a head that is hidden A + c; None if it is not, or if that is unknown. None:
        it is not, or that is not known.
        """
        ...


def shapes_of(structure: Structure, params: Any) -> Layer:
    """The structure's layer, with shapes in place of arrays; traced once for the structure, which
    never changes, and parameters of the same shapes and dtypes: a trace takes as long as a small
    run.
    """
    leaves, tree = jax.tree.flatten(params)
    known = vars(structure).setdefault("known shapes", {})
    key = (tree, tuple(map(jax.typeof, leaves)))
    if key not in known:
        known[key] = jax.eval_shape(structure.of, params)
    return known[key]


class Layer(Protocol):
    """What joins columns, at some parameters.

    A part is what some columns of a row contribute. Parts of different columns of a hybrid are put
    together by `both`; `joined` makes the layer of two parts that hold all columns between them.
    """

    @property
    def name(self) -> str:
        """The name for `stats["structure"]` if no closed form answers."""
        ...

    @property
    def width(self) -> int:
        """H."""
        ...

    @property
    def parts(self) -> int:
        """L."""
        ...

    @property
    def adds(self) -> bool:
        """Whether L is H and `both` adds, so that sums of parts are parts."""
        ...

    @property
    def level(self) -> Any:
        """A further size at which a unit is rounded if parts are taken apart, in addition to its
        own; [H], or 0.
        """
        return 0.0

    @property
    def by_columns(self) -> bool:
        """Whether each column has a part of its own. False: only the columns of a player together
        have one, as the layer is declared; then no column may be moved by itself either.
        """
        return True

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """log2 of the rows of slots, ascending; each takes a program (see `GameRun.packs`)."""
        ...

    @property
    def dense(self) -> tuple[jax.Array, jax.Array] | None:
        """(W [C, H], b [H]) of a layer that is columns W + b. None: it is another."""
        return None

    @property
    def scans(self) -> bool:
        """Whether it is columns W + b, each column made of the one in its place: then it is a
        cumulative sum along an order of players.
        """
        return self.dense is not None

    def work(self) -> float:
        """Multiplications of one row that sub-coalitions save; inf: nearly all of them."""
        ...

    def block(self, rows: int, platform: str, bits: int = 0) -> int:
        """Rows that `subsets` gives the head at a time, of a tile of `rows`; a divisor of these,
        and a power of two if they are one.

        platform: that of the devices that the program is compiled for; bits: log2 of a slot's rows.
        """
        ...

    def columns(self, rows: Any) -> jax.Array:
        """The columns [R, C] that it reads, each made of one column at most of rows [R, F], which
        may be NumPy's.
        """
        return rows

    def of_columns(self, flags: OfColumns) -> OfColumns:
        """What is known of the columns made of the rows' columns, [.., C], given `flags` of these,
        [.., F].
        """
        return flags

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array, platform: str
    ) -> jax.Array:
        """Answers to the sub-coalitions of slots; [S 2^s, A].

        head: hidden [`block(S 2^s, platform, s)`, H] -> [.., A]; x, donors [S, F]; kept bool
        [S, s + 1, F]:
        entry t holds the columns of the player that bit t of a sub-coalition keeps, the last one
        those that all sub-coalitions of the slot keep.
        """
        ...

    def prepares(self, platform: str) -> bool:
        """Whether what players contribute is worth to be made ready before sub-coalitions are
        asked: it takes a good share of the time that the sub-coalitions of a pair do.
        """
        return False

    def prepared(self, columns: jax.Array, own: jax.Array, kept: bool, platform: str) -> jax.Array:
        """What each player contributes, as `prepared_subsets` takes it; [R, ..]. It is called only
        if the layer `prepares`.

        columns: [R, C], of instances (kept) or of donors; own: bool [P, C], the columns of each
        player.
        """
        raise AssertionError("no layer that prepares")

    def prepared_subsets(
        self, head: Head, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """Answers to all sub-coalitions of x against donors; [S 2^P, A]. It is called only if the
        layer `prepares`.

        head and platform: as for `subsets`; x [..], donors [S, ..]: results of `prepared`;
        players: P.
        """
        raise AssertionError("no layer that prepares")

    def part(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        """What the columns own bool [R, C] of columns [R, C] contribute; [R, L]."""
        ...

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """The part of no columns, for this number of rows; [R, L]."""
        ...

    def both(self, one: jax.Array, other: jax.Array) -> jax.Array:
        """The part of the columns of two parts [.., L]; [.., L]."""
        ...

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """The layer of parts [n, L] of instances crossed with parts [V, L] of donors; [n, V, H]."""
        ...

    def closed_form(self, background: WeightedDonors, head: Affine) -> Form | None:
        """Values against all donors, of answers hidden A + c; None if no closed form is known."""
        return None


class SizeWeights(Protocol):
    """The weights of values, by the number of players that are not null."""

    @property
    def order(self) -> int:
        """Values are of sets of 1 to `order` players."""
        ...

    def __call__(self, k: int) -> semivalues.Weights:
        """Weights for k players, as in `games/interactions`."""
        ...


@dataclass(frozen=True)
class WeightedDonors:
    """What a closed form averages over, and by which weights."""

    donors: np.ndarray  # [B, C], the columns that the layer reads
    weights: np.ndarray  # float64 [B]
    players: np.ndarray  # int [C], whose each column is
    P: int
    of: SizeWeights  # k -> the weights of sets of k players


class Form(Protocol):
    """A closed form: values of a layer of its own, which a matrix takes to the answers."""

    name: str  # for `stats["structure"]`
    head: Affine  # answers = its layer A + c
    of_donors: np.ndarray  # float64 [B, H], its layer

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values [R, M, H] of sets of 1 to `order` players of columns [R, C], and the layer itself
        [R, H]; float64.
        """
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Columnwise(Layer):
    """A layer of the columns [R, C] that `made` gives of rows [R, F]; its other members, which are
    about these columns, are those of `inner`.
    """

    inner: Layer  # of these columns
    params: Any
    made: Callable[[Any, Any], jax.Array] = field(metadata={"static": True})
    owners: tuple[int, ...] = field(metadata={"static": True})  # [C], the column each is made of

    @property
    def scans(self) -> bool:
        """See `Layer.scans`."""
        return self.inner.scans and self.owners == tuple(range(len(self.owners)))

    def columns(self, rows: Any) -> jax.Array:
        """See `Layer.columns`: results are identical bit for bit for any number of rows above
        one.
        """
        if len(rows) == 1:
            return self.made(self.params, rows)
        made = self.made(self.params, whole_vectors(rows, 0))
        return jax.lax.optimization_barrier(made)[: len(rows)]

    def of_columns(self, flags: OfColumns) -> OfColumns:
        """See `Layer.of_columns`."""
        return flags[..., np.maximum(self.owners, 0)]

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        both = self.columns(jnp.concatenate([x, donors]))
        own = self.of_columns(kept)
        return self.inner.subsets(head, both[: len(x)], both[len(x) :], own, platform)


# All other members are those of the layer of the columns.
for member in vars(Layer):
    if not member.startswith("_") and member not in vars(Columnwise):
        setattr(Columnwise, member, property(attrgetter(f"inner.{member}")))


def largest(layer: Layer, rows: jax.Array) -> jax.Array:
    """The largest size of a column that the layer reads of rows [R, F]; [R].

    Times its largest weight, if the layer is dense.
    """
    columns = jnp.abs(layer.columns(rows))
    if layer.dense is not None:
        columns = columns * jnp.abs(layer.dense[0]).max(axis=1)
    # A maximum need not show a number that is missing.
    infinite = jnp.full_like(columns, jnp.inf)
    return jnp.where(jnp.isfinite(columns), columns, infinite).max(axis=1, initial=0)
