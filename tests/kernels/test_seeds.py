"""Slots made on the device, against a loop over every pair and every slot of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from often import some_slow

from xaijax_kernels.engine.lattice import LISTED, Pairs, pack, player_words
from xaijax_kernels.engine.seeds import runs_of_tile, seeds, slots_of

pytestmark = pytest.mark.usefixtures("strict_numerics")

N, B, P = 7, 5, 9


def pairs_of(kind: str, slot_bits: int) -> Pairs:
    rng = np.random.default_rng(4)
    chance = {"few": 0.3, "most": 0.9, "all": 2.0, "none": -1.0}[kind.partition(" ")[0]]
    differs = rng.random((N * B, P)) < chance
    instance, donor = np.divmod(np.arange(N * B), B)
    listed = 40 if kind.endswith("list") else None
    return pack(instance, donor, differs, slot_bits, listed)


def every_slot(pairs: Pairs) -> np.ndarray:
    """By the definition: the pairs in their order, and each one's slots in theirs."""
    words = player_words(pairs.differs).view(np.int32)
    found: list[Any] = []
    for m, asked in enumerate(pairs.asked):
        first = LISTED if pairs.first[m] else 0
        for slot in range(-(-int(asked) >> pairs.slot_bits)):
            subset = first + (slot << pairs.slot_bits)
            found.append([subset, pairs.instance[m], pairs.donor[m], *words[m]])
    return np.array(found)


@pytest.mark.parametrize("kind", ["few", "most", "all", "none", "few list", "most list"])
@pytest.mark.parametrize("slot_bits", [0, 4])
@pytest.mark.parametrize("slots", some_slow([16, 4, 64], 3))
def test_every_slot_is_made(kind: str, slot_bits: int, slots: int) -> None:
    pairs, tiles = pairs_of(kind, slot_bits), 3
    wanted, most = every_slot(pairs), 3 * slots
    make = jax.jit(partial(slots_of, slots=slots, slot_bits=slot_bits))
    tables, first = set(), 0
    for piece in seeds(pairs, slots, tiles, most):
        tables.add(id(piece.table))
        assert piece.first_row == first << slot_bits and len(piece.table) <= most
        assert piece.tiles.shape[1:] == (runs_of_tile(P, slot_bits) + 1, 4)
        table = np.zeros((most, 4), np.int32)
        table[: len(piece.table)] = piece.table
        got = np.concatenate([np.asarray(make(tile, table)) for tile in piece.tiles])
        own = piece.rows >> slot_bits
        np.testing.assert_array_equal(got[:own], wanted[first : first + own])
        # What fills the last tile up is a slot that is asked.
        np.testing.assert_array_equal(
            got[own:], np.repeat(wanted[first + own - 1][None], len(got) - own, 0)
        )
        first += own
    assert first == len(wanted)
    if kind == "few" and slot_bits == 4:
        assert len(tables) == -(-len(wanted) // most), "pairs of one slot each fill their tables"
    if kind == "all" and slots == 16 and slot_bits == 4:
        assert len(tables) == 1, "one table does for pairs of many slots each"


def test_no_pairs_make_no_piece() -> None:
    none = pack(np.zeros(0, int), np.zeros(0, int), np.zeros((0, P), bool), 4)
    assert not list(seeds(none, 16, 3, 48))


def test_a_tile_that_is_not_asked_names_rows_that_are_there() -> None:
    table = np.arange(48 * 4, dtype=np.int32).reshape(48, 4)
    made = slots_of(np.zeros((runs_of_tile(P, 4) + 1, 4), np.int32), table, 16, 4)
    assert {tuple(row) for row in np.asarray(made).tolist()} <= {tuple(r) for r in table.tolist()}
