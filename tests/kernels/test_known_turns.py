"""Where a GPU would ask the host whether a loop goes on, the loop's turns are known beforehand,
and no branch hangs on a number of the device.

Checked without a GPU: the programs lowered for CUDA, and the same programs compiled for the CPU.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from loops import asked_branches, count_turns, for_cuda, unknown_loops
from often import some_slow
from tiled_kernels import tiled

from xaijax_kernels.engine import tiles as turns
from xaijax_kernels.structures import averaged

pytestmark = pytest.mark.usefixtures("strict_numerics")

REDUCTIONS = ("reduce_pairs", "reduce_pieces")  # their loops never had anything to ask
CASES = [
    pytest.param(name, function, arguments, id=f"{at} {name}")
    for at, (name, function, arguments) in enumerate(tiled(1))
]


@pytest.fixture(params=["known", "not known"])
def known(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether loops are made as for a GPU, whichever device is here."""
    count_turns(request.param == "known", monkeypatch)
    return request.param == "known"


def numbers(arguments: Any, tiles: int) -> Any:
    """Arrays for the shapes: places from 0, since they must name rows that are there."""
    rng = np.random.default_rng(0)

    def made(one: Any) -> jax.Array:
        if one.dtype == jnp.float32:
            return jnp.asarray(rng.uniform(size=one.shape), jnp.float32)
        if one.shape == (1,):  # the tiles that are run
            return jnp.full(one.shape, tiles, one.dtype)
        return jnp.asarray(rng.integers(0, 2, one.shape), one.dtype)

    return jax.tree.map(made, arguments)


def test_platforms() -> None:
    assert [turns.counted(one) for one in ("gpu", "cuda", "rocm")] == [True] * 3
    assert not turns.counted("cpu") and not turns.counted("tpu")


@pytest.mark.parametrize(("name", "function", "arguments"), some_slow(CASES, 9))
def test_no_loop_for_cuda_asks_the_host(
    name: str, function: Any, arguments: Any, known: bool
) -> None:
    text = for_cuda(function, arguments)
    assert bool(unknown_loops(text)) == (name not in REDUCTIONS and not known)
    assert "callback" not in text and "f64" not in text
    # The host would be asked which branch is taken, too.
    assert not known or not asked_branches(text)


@pytest.mark.parametrize(("name", "function", "arguments"), some_slow(CASES, 9))
def test_the_compiler_knows_every_count(
    name: str, function: Any, arguments: Any, known: bool
) -> None:
    compiled = jax.jit(lambda *given: function(*given)).lower(*arguments).compile().as_text()
    loops = re.findall(r" while\(.*", compiled)
    counts = [one for one in loops if "known_trip_count" in one]
    assert loops or name in REDUCTIONS  # whose one group needs no loop
    if known or name in REDUCTIONS:
        assert len(counts) == len(loops)
    else:
        assert len(counts) < len(loops)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "function", "arguments"), some_slow(CASES, 9))
def test_the_bits_are_the_same(
    name: str, function: Any, arguments: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[Any]] = []
    # A tile that may leave its loop may also take chances another way, in other bits.
    monkeypatch.setattr(averaged, "chances_of", lambda *_: None)
    for known in (True, False):
        count_turns(known, monkeypatch)
        run = jax.jit(lambda *own: function(*own))
        found.append(jax.tree.leaves([run(*numbers(arguments, tiles)) for tiles in range(3)]))
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
