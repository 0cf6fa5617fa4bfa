"""The most that one record can move a quantity of interest: proved bounds, and the paper's.

Neighbours have the same size and differ in one record. The model, the positive class, the players,
the people explained, the weights of the record positions and which of them are members are public
and the same for both. Let a be the largest share of one record in an outer mean over data rows
(1/n; 1/y in a group of y) and b in the mean over donors (1/n; 0 if the pool is public).

The pattern of every proof: Q(S) is a sum over pairs (row x, donor u) of weight(x) weight(u) times
a score in [0, 1]. Replacing a record changes the scores of the pairs that it is in, and a score
changes by at most 1. Q(S) therefore changes by at most the total weight of these pairs.

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
from typing import Literal

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public

INDIVIDUAL = ("individual", "actual")
QUANTITIES = ("individual", "actual", "average", "rate", "group", "disparity")


@dataclass(frozen=True)
class Sensitivity:
    """Bounds how far one record of the data can move a quantity of interest; from `sensitivity`.

    Q(S) is the quantity after the players S were replaced, as for `QII`. The bounds hold for every
    set S.

    Attributes:
        before: fraction. The bound for Q(nothing replaced).
        after: fraction. The bound for Q(S).
        influence: fraction. The bound for the influence Q(nothing replaced) - Q(S): the sum of
            both.
        paper: fraction or None. The bound for the influence in Table I of the paper.

    Example:
        >>> import xaijax as xj
        >>> bounds = xj.privacy.sensitivity("group", rows=20, members=10)
        >>> float(bounds.influence), float(bounds.paper)
        (0.245, 0.2)

        The paper's number is too small: one record can move this influence by 0.235.

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE S&P
        2016), Table I.
    """

    before: Fraction
    after: Fraction
    paper: Fraction | None

    @property
    def influence(self) -> Fraction:
        """The most that one record can move the influence Q(nothing replaced) - Q(S)."""
        return self.before + self.after


def bound(
    quantity: str, a: Fraction, b: Fraction, of_labels: bool = True
) -> tuple[Fraction, Fraction]:
    """The bounds (of Q(nothing replaced), of Q(S)) for scores in [0, 1].

    a: the largest share of one record in an outer mean (that of the smaller group for a gap); b:
        that in the mean over donors. of_labels: "actual" and "average" compare classes, and are not
        means of probabilities.
    """
    zero = Fraction(0)
    if quantity in INDIVIDUAL:
        return zero, b
    if quantity == "average" and of_labels:
        return zero, a + b - a * b
    if quantity == "disparity":
        return a, a + 2 * b - a * b
    return a, a + b - a * b


def paper_bound(quantity: str, rows: int, donors: int, group: int = 0) -> Fraction:
    """The bound of Table I; donors: 0 if the pool is public. group: rows of the smaller group."""
    if quantity in INDIVIDUAL:
        return Fraction(1, donors) if donors else Fraction(0)
    return Fraction(2, group if quantity in ("group", "disparity") else rows)


@public
def sensitivity(
    quantity: Literal["individual", "actual", "average", "rate", "group", "disparity"],
    rows: int,
    members: int | None = None,
    public_pool: bool = False,
) -> Sensitivity:
    """Computes how far one record can move a quantity of interest: proved bounds, exact fractions.

    They hold for labels, or scores between 0 and 1, and for equal weights. The two data sets have
    the same number of records and differ in one. Multiply by the width of the bounds for scores,
    and by the index's constant for an index, see docs/privacy.md. `xaijax.privacy.release` does all
    of this.

    Args:
        quantity: "individual", "actual", "average", "rate", "group" or "disparity", as for `QII`.
            "ratio" has no bound.
        rows: int. The number n of rows of the private data. They are the donors too unless
            `public_pool`.
        members: int or None. The number y of rows of the group. It is needed for "group" and
            "disparity", and accepted for no other quantity.
        public_pool: bool. True: the donors are other rows, known to everybody, or one constant row.

    Returns:
        A `Sensitivity`: bounds on Q before and after a replacement and on the influence.

    Raises:
        InputError, InputTypeError: an argument is not accepted.

    Example:
        >>> import xaijax as xj
        >>> xj.privacy.sensitivity("disparity", rows=4, members=2).after
        Fraction(7, 8)

        With a = 1/2 (the smaller group) and b = 1/4 (a donor), it is a + 2 b - a b.

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE S&P
        2016), Table I and theorem 12. The paper's bounds for "group" and "disparity" do not hold;
        docs/privacy.md has the counterexamples.
    """
    checks.one_of(quantity, "quantity", QUANTITIES)
    n = checks.whole_number(rows, "rows")
    if not isinstance(public_pool, bool):
        raise InputError(f"public_pool must be True or False, got {public_pool!r}.")
    a, b = Fraction(1, n), Fraction(0 if public_pool else 1, n)
    smaller = n
    if quantity in ("group", "disparity"):
        if members is None:
            raise InputError(f"members= is needed for quantity={quantity!r}: how many rows.")
        y = checks.whole_number(members, "members")
        if y > n or (quantity == "disparity" and y == n):
            raise InputError(f"members: {y} of rows={n}; a gap needs rows outside the group.")
        smaller = min(y, n - y) if quantity == "disparity" else y
        a = Fraction(1, smaller)
    elif members is not None:
        raise InputError(f"members= goes with 'group' and 'disparity', not with {quantity!r}.")
    return Sensitivity(
        *bound(quantity, a, b), paper_bound(quantity, n, 0 if public_pool else n, smaller)
    )
