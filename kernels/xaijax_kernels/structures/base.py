"""The two halves of a structure: functions of a model's parameters, and its layer at given
parameters.

A model with a structure is f(X) = head(layer(X)): the layer is the first step that joins columns,
the head is the rest. A hybrid takes each column from the instance x or from a donor. The
contributions of x's columns and of the donor's columns to the layer, its parts, are combined, and
no row is made.

`Structure` belongs to the probe's findings, and holds functions of the model's parameters. Programs
call `Structure.of` on their parameters to make the `Layer`. A layer is a pytree: `jax.eval_shape`
of `of` gives its sizes without running anything.

Every layer has every member. Subclasses of `Layer` inherit those with a body here and define the
others. `tests/kernels/test_structure_contract.py` checks all layers.

Letters: F columns of the rows, C columns that the layer reads, H numbers of the layer (its units),
L numbers of a part, A answers, K outputs, R rows, n instances, V or B donors, P players, S slots of
2^s sub-coalitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
# A compiled loop runs over vectors of 8 or 16 numbers, up to four at once, and rounds exponentials
# and logarithms differently in the remainder at its end.
VECTORS = 64


def whole_vectors(numbers: Any, axis: int) -> jax.Array:
    """The array with its last entry along the axis repeated, up to whole vectors of entries.

    A number's exponential is then the same however many others are computed with it. Results go
    through an `optimization_barrier` before they are cut to length, otherwise the compiler would
    compute only the part that is used.
    """
    filled = [(0, 0)] * numbers.ndim
    filled[axis] = (0, -numbers.shape[axis] % VECTORS)
    return jnp.pad(numbers, filled, mode="edge") if filled[axis][1] else jnp.asarray(numbers)


class Structure(Protocol):
    """The structure of a model, found or declared, as functions of its parameters.

    Hashable: programs are kept under it.
    """

    @property
    def declared(self) -> bool:
        """Whether the user declared it; it is then used even if it saves nothing."""
        ...

    def of(self, params: Any, /) -> Layer:
        """The layer at these parameters; its arrays may be tracers or shapes."""
        ...

    def head(self, params: Any, hidden: Any, /) -> Any:
        """The model's outputs [R] or [R, K] for rows whose layer is `hidden` [R, H]."""
        ...

    def affine(self, params: Any, /) -> Affine | None:
        """A and c of a head that is hidden A + c; None if it is not, or if that is unknown."""
        ...


def shapes_of(structure: Structure, params: Any) -> Layer:
    """The structure's layer, with shapes in place of arrays. It is traced once per structure and
    per shapes and dtypes of the parameters, because tracing takes as long as a small run.
    """
    leaves, tree = jax.tree.flatten(params)
    known = vars(structure).setdefault("known shapes", {})
    key = (tree, tuple(map(jax.typeof, leaves)))
    if key not in known:
        known[key] = jax.eval_shape(structure.of, params)
    return known[key]


class Layer(Protocol):
    """The step that joins columns, at given parameters.

    A part is the contribution of some columns of a row. `both` combines the parts of different
    columns of a hybrid; `joined` makes the layer from two parts that together hold all columns.
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
        """Whether L = H and `both` adds, so that sums of parts are parts."""
        ...

    @property
    def compares(self) -> bool:
        """Whether columns are only compared with bounds, so that missing and infinite numbers give
        the model's own outputs.
        """
        return False

    @property
    def level(self) -> Any:
        """The size at which a unit in parts is rounded, where it exceeds the unit's own; [H],
        or 0.
        """
        return 0.0

    @property
    def by_columns(self) -> bool:
        """Whether each column has its own part. False: by its declaration only all columns of a
        player together have one, and no column may be moved alone.
        """
        return True

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """log2 of the possible rows of slots, ascending; each needs a program (see
        `GameRun.packs`)."""
        ...

    @property
    def dense(self) -> tuple[jax.Array, jax.Array] | None:
        """(W [C, H], b [H]) of a layer that is columns W + b. None: it is another."""
        return None

    @property
    def scans(self) -> bool:
        """Whether it is columns W + b, with each column computed from the row's column at the same
        position: then it is a cumulative sum along an order of players.
        """
        return self.dense is not None

    @property
    def forest(self) -> Mapping[str, Any] | None:
        """The nodes of the trees whose leaves it sums, as `path_dependent` takes them; None for
        other layers.
        """
        return None

    def work(self) -> float:
        """Multiplications per row that sub-coalitions save; inf: nearly all of them."""
        ...

    def block(self, rows: int, platform: str, bits: int = 0) -> int:
        """Rows per call of the head in `subsets`, for a tile of `rows`: a divisor of these, and a
        power of two if they are one.

        platform: that of the devices that the program is compiled for; bits: log2 of a slot's rows.
        """
        ...

    def columns(self, rows: Any) -> jax.Array:
        """The columns [R, C] that it reads; each depends on at most one column of `rows` [R, F]
        (JAX or NumPy).
        """
        return rows

    def of_columns(self, flags: OfColumns) -> OfColumns:
        """Flags [.., C] of the layer's columns from `flags` [.., F] of the rows' columns."""
        return flags

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, mask: jax.Array, platform: str
    ) -> jax.Array:
        """Outputs for the sub-coalitions of slots; [S 2^s, A].

        head: hidden [`block(S 2^s, platform, s)`, H] -> [.., A]; x, donors [S, F]; mask bool [S, s
        + 1, F]: entry t holds the columns of the player that bit t of a sub-coalition keeps, the
        last entry those that all sub-coalitions of the slot keep.
        """
        ...

    def prepares(self, platform: str) -> bool:
        """Whether players' contributions should be computed before the sub-coalitions: they take a
        good share of the time of a pair's sub-coalitions.
        """
        return False

    def prepared(self, columns: jax.Array, mask: jax.Array, kept: bool, platform: str) -> jax.Array:
        """Each player's contribution, as `prepared_subsets` takes it; [R, ..]. It is called only if
        the layer `prepares`.

        columns: [R, C], of instances (kept) or of donors; mask: bool [P, C], the columns of each
        player. A layer that `lists` gives bits, uint32 [R, ceil(P / 32), L].
        """
        raise AssertionError("no layer that prepares")

    def prepared_subsets(
        self, head: Head, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """Outputs for all sub-coalitions of x against donors; [S 2^P, A]. It is called only if the
        layer `prepares`.

        head and platform: as for `subsets`; x [..], donors [S, ..]: results of `prepared`;
        players: P.
        """
        raise AssertionError("no layer that prepares")

    @property
    def lists(self) -> bool:
        """Whether listed coalitions are computed from results of `prepared`."""
        return False

    def at_sets(self, x: jax.Array, donors: jax.Array, sets: jax.Array, platform: str) -> jax.Array:
        """The layer of hybrids of x and each of the donors; [B, C, H]. It is called only if the
        layer `lists`.

        x [..], donors [B, ..]: results of `prepared`; sets: uint32 [C, ceil(P / 32)], the players
        that each hybrid keeps of x, as bits.
        """
        raise AssertionError("no layer that lists")

    def part(self, columns: jax.Array, mask: jax.Array) -> jax.Array:
        """The contribution of those entries of columns [R, C] where `mask` bool [R, C] is True; [R,
        L]."""
        ...

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """The part of no columns, for `rows` rows; [R, L]."""
        ...

    def both(self, part: jax.Array, other: jax.Array) -> jax.Array:
        """The part of the columns of two parts [.., L]; [.., L]."""
        ...

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """The layer of parts [n, L] of instances crossed with parts [V, L] of donors; [n, V, H]."""
        ...

    def whole(self, columns: jax.Array) -> jax.Array:
        """The layer of full rows, columns [R, C]; [R, H]."""
        parts = self.part(columns, jnp.ones(columns.shape, bool))
        nothing = self.nothing(1, columns.dtype)
        return jax.vmap(lambda part: self.joined(part[None], nothing)[0, 0])(parts)

    def closed_form(self, background: WeightedDonors, head: Affine) -> Form | None:
        """Values against all donors, of outputs hidden A + c; None if no closed form is known."""
        return None


class SizeWeights(Protocol):
    """Weights of values, by the number of players that are not null."""

    @property
    def order(self) -> int:
        """Values are of sets of 1 to `order` players."""
        ...

    def __call__(self, k: int) -> semivalues.Weights:
        """Weights for k players, as in `games/interactions`."""
        ...


# (key, function, arguments) -> the compiled function, cached and counted.
ProgramMaker = Callable[[tuple[Any, ...], Callable[..., Any], tuple[Any, ...]], Callable[..., Any]]


@dataclass(frozen=True)
class WeightedDonors:
    """The donors that a closed form averages over, and their weights."""

    donors: np.ndarray  # [B, C], the columns that the layer reads
    weights: np.ndarray  # float64 [B]
    players: np.ndarray  # int [C], the player of each column
    P: int
    of: SizeWeights  # k -> the weights of sets of k players
    memory: int = 1 << 28  # bytes that the form may use
    program: ProgramMaker = lambda key, function, arguments: jax.jit(function)
    platform: str = "cpu"  # the platform of compiled programs


class Form(Protocol):
    """A closed form: values of its own layer, which a matrix maps to the outputs."""

    name: str  # for `stats["structure"]`
    head: Affine  # outputs = its layer A + c
    of_donors: np.ndarray  # float64 [B, H], its layer
    size: int  # bytes of its tables, and of what is held while they are made; without the donors

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values [R, M, H] of sets of 1 to `order` players of columns [R, C], and the layer itself
        [R, H]; float64.
        """
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Columnwise(Layer):
    """A layer of the columns [R, C] that `made` computes from rows [R, F]; its other members are
    those of `inner`, and refer to these columns.
    """

    inner: Layer  # of these columns
    params: Any
    made: Callable[[Any, Any], jax.Array] = field(metadata={"static": True})
    owners: tuple[int, ...] = field(metadata={"static": True})  # [C], the column of each

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
        self, head: Head, x: jax.Array, donors: jax.Array, mask: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        both = self.columns(jnp.concatenate([x, donors]))
        column_flags = self.of_columns(mask)
        return self.inner.subsets(head, both[: len(x)], both[len(x) :], column_flags, platform)


# All other members are those of `inner`.
for member in vars(Layer):
    if not member.startswith("_") and member not in vars(Columnwise):
        setattr(Columnwise, member, property(attrgetter(f"inner.{member}")))


def largest(layer: Layer, rows: jax.Array) -> jax.Array:
    """Largest absolute value among the columns that the layer reads from rows [R, F]; [R].

    Multiplied by its largest weight if the layer is dense; 0 if it only compares columns.
    """
    if layer.compares:
        return jnp.zeros(len(rows))
    columns = jnp.abs(layer.columns(rows))
    if layer.dense is not None:
        columns = columns * jnp.abs(layer.dense[0]).max(axis=1)
    # A maximum need not propagate NaN.
    infinite = jnp.full_like(columns, jnp.inf)
    return jnp.where(jnp.isfinite(columns), columns, infinite).max(axis=1, initial=0)
