"""How far one record can move a quantity of interest: bounds that are proved, and the paper's.

Neighbours have the same size and differ in one record. Public and the same for both: the model, the
positive class, the players, the people explained, the weights of the record places and which of
them are members. With these, let a be the largest share of one record in an outer mean over data
rows (1/n; 1/y in a group of y) and b in the mean over donors (1/n; 0 where the pool is public).

The pattern of every proof: Q(S) is a sum over pairs (row x, donor u) of weight(x) weight(u) times
a score in [0, 1]. Replacing a record changes the scores of the pairs that it is in, and a score
changes by 1 at most; so Q(S) changes by no more than these pairs weigh together.

- One mean over data rows: the record is in its row of pairs (a) and in its column (b), which share
  one pair: a + b - a b. With 1/n: (2n - 1)/n^2; in a group: 1/y + 1/n - 1/(y n).
- A gap between two groups: in its own group a + b - a b, and as a donor of the other group's rows
  b: a + 2b - a b, a being that of the smaller group. Theorem 12(4) of the paper counts a alone.
- An individual, who is public: only the column, b.
- Nothing replaced: the record is one row of its group, a; 0 where Q(nothing) is a constant (an
  individual's own score; the share of people who keep their class, which is 1).

An influence Q(nothing) - Q(S) moves by no more than the two together. The tests check all of these
by brute force.

Letters: n data rows, y members.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from xaijax import _checks
from xaijax._errors import InputError
from xaijax._public import public

INDIVIDUAL = ("individual", "actual")
QUANTITIES = ("individual", "actual", "average", "rate", "group", "disparity")


@dataclass(frozen=True)
class Sensitivity:
    """How far one record can move Q(nothing replaced), Q(S) and their difference, for every S."""

    before: Fraction
    after: Fraction
    paper: Fraction | None  # what the paper's Table I (or Theorem 12) says of the influence

    @property
    def influence(self) -> Fraction:
        """Of iota(S) = Q(nothing replaced) - Q(S)."""
        return self.before + self.after


def bound(
    quantity: str, a: Fraction, b: Fraction, of_labels: bool = True
) -> tuple[Fraction, Fraction]:
    """(of Q(nothing replaced), of Q(S)) for scores in [0, 1].

    a: the largest share of one record in an outer mean (that of the smaller group for a gap), b: in
    the mean over donors. of_labels: "actual" and "average" compare classes, and are not means of
    chances.
    """
    zero = Fraction(0)
    if quantity in INDIVIDUAL:
        return zero, b
    if quantity == "average" and of_labels:
        return zero, a + b - a * b
    if quantity == "disparity":
        return a, a + 2 * b - a * b
    return a, a + b - a * b


@public
def sensitivity(
    quantity: str, rows: int, members: int | None = None, public_pool: bool = False
) -> Sensitivity:
    """The proved bounds for labels (or scores in [0, 1]) and equal weights, as fractions.

    Arguments:
        quantity: "individual", "actual", "average", "rate", "group" or "disparity".
        rows: n, of the private data, which are the donors too unless `public_pool`.
        members: y, of the group, for "group" and "disparity".
        public_pool: the donors are other rows, known to everybody (or one constant row).

    For scores multiply by the width of their bounds. Indices multiply by a constant of theirs, see
    docs/privacy.md.

    Raises InputError, InputTypeError for what is not accepted; "ratio" has no bound.
    """
    _checks.one_of(quantity, "quantity", QUANTITIES)
    n = _checks.whole_number(rows, "rows")
    if not isinstance(public_pool, bool):
        raise InputError(f"public_pool must be True or False, got {public_pool!r}.")
    a, b = Fraction(1, n), Fraction(0 if public_pool else 1, n)
    paper = {"individual": b, "actual": b, "average": 2 * a, "rate": 2 * a}.get(quantity)
    if quantity in ("group", "disparity"):
        if members is None:
            raise InputError(f"members= is needed for quantity={quantity!r}: how many rows.")
        y = _checks.whole_number(members, "members")
        if y > n or (quantity == "disparity" and y == n):
            raise InputError(f"members: {y} of rows={n}; a gap needs rows outside the group.")
        smaller = min(y, n - y) if quantity == "disparity" else y
        a = Fraction(1, smaller)
        paper = 2 * a
    elif members is not None:
        raise InputError(f"members= goes with 'group' and 'disparity', not with {quantity!r}.")
    return Sensitivity(*bound(quantity, a, b), paper)
