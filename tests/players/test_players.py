"""Groups of columns: whose each column is, at a cost that grows with the columns."""

from __future__ import annotations

import numpy as np
import pytest

from xaijax.core.errors import InputError
from xaijax.players.players import players_from, players_numbered


class Names(list):
    """Names of columns that are not searched one by one: that took a square of their number."""

    def __contains__(self, one):
        raise AssertionError("all names were searched for one")

    def index(self, *_):
        raise AssertionError("all names were searched for one")


@pytest.mark.parametrize("as_text", [True, False])
def test_groups_of_many_columns(as_text) -> None:
    F = 4_000
    names = Names(f"c{j}" for j in range(F))
    order = np.random.default_rng(0).permutation(F)[:3_000].reshape(-1, 3).tolist()
    groups = {
        f"g{k}": [names[c] if as_text else c - F * (c % 2) for c in own]
        for k, own in enumerate(order)
    }
    players = players_from(groups, names, (F,))
    owner = {c: k for k, own in enumerate(order) for c in own}
    rest = [c for c in range(F) if c not in owner]
    owner |= {c: len(order) + n for n, c in enumerate(rest)}
    assert players.of_column.tolist() == [owner[c] for c in range(F)]
    assert players.names == (*groups, *(names[c] for c in rest))
    wanted = [tuple(sorted(own)) for own in order] + [(c,) for c in rest]
    assert list(players.all_columns) == wanted


def test_players_of_numbers_with_entries_of_nobody() -> None:
    players = players_numbered(np.array([2, -1, 0, 2, 1, 2, 2]), list("abcdefg"))
    assert players.names == ("c", "e", "player 2")
    assert players.all_columns == ((2,), (4,), (0, 3, 5, 6))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("z", "no column 'z'; columns are"),
        (4, "no column 4; there are 4"),
        (-5, "no column -5; there are 4"),
        (3, "column 3 is the position of 'd' and the label of another column"),
    ],
)
def test_columns_that_are_not_there(column, said) -> None:
    with pytest.raises(InputError, match=said):
        players_from([[column]], ["3", "b", "c", "d"], (4,))
