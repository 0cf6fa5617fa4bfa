"""How many rows, tiles or terms a program handles at once, by the platform it is compiled for.

Results on a CPU stay identical bit for bit only while its sizes stay the same, because the rounding
of a product depends on its number of rows. Sizes for a CPU were measured. Those of a GPU and a TPU
follow from the compilers for an H200 and a v5e (`bench/ACCELERATORS.md`) and from three facts:

- each operation in a loop's body is a kernel, which takes a GPU about 3 us to start;
- a product of few rows leaves most of the device idle;
- the L2 cache of an H200 has 50 MB, and the vector memory of a v5e 128 MB; what a layer writes
  there, the next one reads several times faster than from the device's memory.

Letters: R rows, H units or terms of a layer, K outputs, S slots, donors or pairs, V training rows.
"""

from __future__ import annotations

import math


def kind_of(platform: str) -> str:
    """ "cpu", "tpu" or "gpu", which CUDA, ROCm and unknown platforms are."""
    return platform if platform in ("cpu", "tpu") else "gpu"


# Tiles: the rows of one call of a model.

TILES_PER_DISPATCH = 32
SMALLEST_TILE = 256
# Numbers in the widest layer of a tile. CPU: 4 MB of float32 stay in the cache, and 16,384 rows of
# a 64-wide layer ran fastest. GPU: a layer reads and writes several times the L2 cache, so that an
# iteration hides the start of its kernels. TPU: a layer and the next stay in the vector memory.
_NUMBERS = {"cpu": 1 << 20, "gpu": 1 << 23, "tpu": 1 << 22}
_LARGEST = {"cpu": 1 << 14, "gpu": 1 << 17, "tpu": 1 << 16}
# Attention over 64 words makes 8,192 numbers per row, several times: a row took 32 us in tiles of
# 32 and 64, 41 us in 128, 55 us in 256.
_NUMBERS_OF_WIDE = {"cpu": 1 << 19}
SMALLEST_OF_WIDE = 32
# Operations per iteration that take a GPU 100 microseconds at 40 TFLOP/s, as long as starting the
# 40 or so kernels of an iteration. Otherwise tiles of an almost free model could have any size.
TURN_OPERATIONS = 4e9
DISPATCH_OPERATIONS = 64e9  # that hide the cost of a dispatch
# Operations of a dispatch that take two cores of a CPU about half a second. Ctrl-C waits for a
# dispatch that runs, and progress is shown after each.
LONGEST_DISPATCH = 4e10
_LARGEST_OF_CHEAP = 1 << 19
# Platforms that test a loop's condition without copying it to the host; on a TPU the device itself
# does it.
_STOPS_FOR_FREE = ("cpu", "tpu")


def counted(platform: str) -> bool:
    """Whether a loop's trip count must be known when it is compiled for `platform`."""
    return platform not in _STOPS_FOR_FREE


def tile_rows(width: int, itemsize: int, platform: str, operations: float = 0.0) -> int:
    """Rows of one tile: a power of two from 256, a pure function of its arguments.

    operations: those of the model per row, if known (`engine/steps.py`). On a GPU a tile has enough
    of them to fill an iteration.
    """
    kind = kind_of(platform)
    rows = _NUMBERS[kind] * 4 // (itemsize * max(1, width))
    rows = max(SMALLEST_TILE, min(_LARGEST[kind], rows))
    rows = 1 << (rows.bit_length() - 1)
    if counted(platform) and operations > 0:
        while rows < _LARGEST_OF_CHEAP and rows * operations < TURN_OPERATIONS:
            rows *= 2
    return rows


def tiles_of_dispatch(rows: int, operations: float, platform: str) -> int:
    """Number T of tiles of `rows` rows in a dispatch; operations: those of the model per row, 0 if
    unknown.

    If all T iterations are always made, T is just large enough to hide the cost of a dispatch,
    because a small run waits for all of them.
    """
    most = TILES_PER_DISPATCH * max(1, SMALLEST_TILE // rows)
    if operations > 0 and platform == "cpu":
        return max(1, min(most, int(LONGEST_DISPATCH / (rows * operations))))
    if not counted(platform) or operations <= 0:
        return most
    return max(1, min(most, math.ceil(DISPATCH_OPERATIONS / (rows * operations))))


def rows_of_wide(rows: int, width: int, weights: int, itemsize: int, platform: str) -> int:
    """`rows`, halved below SMALLEST_TILE while a tile's numbers exceed the cache and outnumber the
    weights, which each tile reads.
    """
    numbers = _NUMBERS_OF_WIDE.get(platform, math.inf) * 4 / itemsize
    while SMALLEST_OF_WIDE < rows <= SMALLEST_TILE and rows * width > max(numbers, 2 * weights):
        rows //= 2
    return rows


# Values in a group of tiles. One product over many pairs uses all cores, the few pairs of one tile
# do not: grouping takes a third of the time on two cores.
_GROUP_VALUES = {"cpu": 1 << 19, "gpu": 1 << 22, "tpu": 1 << 22}
_OF_A_VALUE = 32  # bytes per value of a group: the transpose, its change, copies


def group_tiles(rows: int, outputs: int, platform: str, most: int) -> int:
    """Number of tiles that are reduced together, a pure function of its arguments.

    most: bytes that the reduction may take, the values included.
    """
    values = min(_GROUP_VALUES[kind_of(platform)], most // _OF_A_VALUE)
    return max(1, values // (rows * outputs))


LANES = 128  # numbers of a TPU's vector along its last axis

# Structures: sub-coalitions evaluated without their rows.

# A product rounds its last few rows differently, but a pair's result must not depend on its
# position.
WHOLE_ROWS = 256
# Numbers of a layer in one call of the head. CPU: half of a core's fast memory.
# GPU and TPU: what a layer of 64 units reads and writes for 98,304 rows takes 50 MB, which the L2
# cache of an H200 holds, and half the vector memory of a v5e.
_LAYER = {"cpu": 1 << 14, "gpu": 6 << 20, "tpu": 6 << 20}
_WIDE_LAYER = 1 << 18  # CPU: for a layer whose head's weights would be read for few rows


def head_rows(width: int, platform: str, itemsize: int = 4) -> int:
    """Maximum number of rows of a layer of `width` numbers in one call of the head."""
    numbers = _LAYER.get(platform, _LAYER["gpu"])
    if platform == "cpu":
        return 1 << max(0, (numbers // width).bit_length() - 1)
    return max(1, numbers * 4 // (itemsize * width))


def head_rows_of_wide(width: int) -> int:
    """`head_rows` on a CPU for a layer that may be wide."""
    return 1 << max(0, (_WIDE_LAYER // width).bit_length() - 1)


def evenly(count: int, most: int) -> int:
    """Size, at most `most`, of chunks that split `count` items with the least padding."""
    return -(-count // -(-count // max(1, most)))


def blocks_of(rows: int, most: int, bits: int) -> int:
    """Rows of a block that splits `rows` rows evenly, at most `most` if possible.

    A block has full slots of 2^bits rows, or a power of two that divides a slot. Padding is not
    possible: callers have a power of two of slots, or see `donors_at_once`.
    """
    if rows <= most:
        return rows
    if most >> bits == 0:
        return 1 << most.bit_length() - 1
    slots, fits = rows >> bits, most >> bits
    blocks = -(-slots // fits)
    while slots % blocks:
        blocks += 1
    return slots // blocks << bits


# Rows whose terms are computed together on a CPU: this many numbers stay in the cache.
_OF_TERMS = 256


def rows_of_terms(terms: int, platform: str) -> int:
    """Number of rows whose terms (support vectors) are computed together; on a GPU and a TPU as for
    a layer."""
    if platform == "cpu":
        return _OF_TERMS
    return max(_OF_TERMS, 1 << head_rows(max(1, terms), platform).bit_length() - 1)


# Rows of products whose factors are computed together if all factors would exceed NUMBERS_OF_PARTS
# and a CPU's cache. The same number serves elsewhere, where this loop takes little time.
FEW_ROWS, NUMBERS_OF_PARTS = 16, 1 << 20
# Rows of full blocks for a layer that is a sum of wide parts: see WHOLE_ROWS.
ROWS_OF_WIDE = 16

# A few coalitions crossed with distinct donors: one call of the head has 2^11 rows. Thresholds of
# trees and most codes give a player few values, and blocks of 32 donors would be mostly padding:
# logistic regression then takes 1.4 times as long on a CPU. Other platforms use the same sizes: the
# strategy has no layout for accelerators.
INSTANCES_OF_CROSSING, DONORS_OF_CROSSING = 128, 16

# Number of reached leaves per product on a CPU, where their half tables stay in a core's fast
# memory. Elsewhere all leaves are one product.
LEAVES = 512


def pairs_together(terms: int, players: int, platform: str, pairs: int) -> int:
    """Number of pairs whose half tables, `terms` numbers per row, are one product.

    CPU: two, one per core. GPU and TPU: as for a layer of the tables' rows, evenly.
    """
    if platform == "cpu":
        return 2 if pairs % 2 == 0 else 1
    tables = (1 << players // 2) + (1 << players - players // 2)
    return evenly(pairs, head_rows(max(1, terms), platform) // tables)


# Averaged tables. CPU: donors of a block, whose sum is not compensated. Elsewhere all donors of a
# tile are one compensated sum.
MOST_DONORS = 16
ROWS_OF_MEANS = 1 << 19  # rows of a tile of an instance and a segment of donors
# In a dispatch. On a GPU and a TPU its instances are one product with this number of rows, even if
# a small run has fewer tiles, so that results do not depend on the run.
TILES_OF_MEANS = 16


def donors_at_once(donors: int, players: int, block: int, most: int) -> int:
    """Donors of a tile on a GPU or a TPU, at most `most` if possible: the same number in each tile
    and in each of its blocks of up to `block` rows, with little padding.
    """
    segments = -(-donors // max(1, min(most, ROWS_OF_MEANS >> players)))
    each = -(-donors // segments)
    fits = block >> players
    if fits == 0:
        return each
    blocks = -(-each // fits)
    return -(-each // blocks) * blocks


def trees_together(rows: int, trees: int) -> int:
    """Number of trees that rows walk at once on a GPU and a TPU, evenly. Positions for 16 Mi (row,
    tree) pairs are 64 MB, and one level of all of them is two kernels.
    """
    return evenly(trees, (1 << 24) // rows)


# Values of products by quadrature: maximum terms and factors of a block, which stay in a CPU's
# cache. With fewer donors the sums over them, not the factors, would dominate.
TERMS, FACTORS, DONORS = 256, 1 << 17, 8
ROWS_OF_PRODUCTS, RESULT = 16, 1 << 22  # maximum rows of a program, and numbers of its result
OF_A_FACTOR = 6  # arrays of a block: the donors' factors, changes, both mixed, products, their sums


def products_at_once(
    terms: int, donors: int, players: int, itemsize: int, memory: int
) -> tuple[int, int, int]:
    """(terms, donors, rows) of a program for values of products, within `memory` bytes if one of
    each fits: half for a block, half for the result and its copy.
    """
    factors = min(FACTORS, memory // (2 * OF_A_FACTOR * itemsize))
    few = min(terms, TERMS, max(32, factors // (DONORS * players)))
    rows = min(ROWS_OF_PRODUCTS, min(RESULT, memory // (4 * itemsize)) // (players * terms))
    return few, max(1, min(donors, factors // (few * players))), max(1, rows)


def answers_at_once(terms: int, memory: int) -> int:
    """Number of rows whose float64 distances from all terms are computed together: three arrays."""
    return max(1, min(RESULT, memory // 24) // terms)


# Training rows of one product of nearest neighbours. CPU: a tile's distances to them stay in the
# cache. GPU and TPU: the width of these distances limits the rows of a tile (`tile_rows`), and more
# training rows would only take memory.
TRAINING = 2048


# Rows of one call of a head divided by those of a plain tile. GPU: an iteration starts about 10
# kernels, and a layer of these rows, 42 MB, stays in the 50 MB of an H200's L2. TPU: an iteration
# has about 25 small steps of 2,000 cycles for any number of rows; two layers of these rows stay in
# a v5e's VMEM.
LARGER = {"gpu": 5 / 4, "tpu": 2}
STEPS_OF_TURNS = 4


def rows_of_call(rows: int, platform: str) -> int:
    """Rows of one call of a head on an accelerator if a plain tile has `rows`."""
    return int(rows * LARGER.get(platform, LARGER["gpu"]))


def turns_of(needed: int, T: int, devices: int) -> int:
    """Iterations of a dispatch that makes all of them: T, or fewer for a small run. Only a few
    different numbers occur, so that similar runs share a program.
    """
    step = -(-T // STEPS_OF_TURNS // devices) * devices
    return min(T, -(-max(1, needed) // step) * step)


# Gradients. A backward pass needs more memory than a forward pass: on a CPU a quarter of the rows
# stays in the cache, and takes no longer per row. On a GPU and a TPU the stored values are in the
# device's memory in either case.
_NARROWER = {"cpu": 4}


def rows_of_gradients(width: int, itemsize: int, platform: str, operations: float) -> int:
    """Rows of a tile of gradients, by the widest layer and the operations of a row."""
    rows = tile_rows(width * _NARROWER.get(platform, 1), itemsize, platform, operations)
    # A line's points are consecutive: no power of two is needed.
    return rows if platform == "cpu" else rows_of_call(rows, platform)


# Scans along orders of players.

LONGEST_BLOCK = 64  # coalition sizes in one call of the head
# On a CPU the layers stay in the cache of a core: few sizes, which XLA then unrolls, and an eighth
# of a plain tile. For a 64-64-64-1 network with 100 donors the head alone then takes 0.80 to 0.96
# of the processor time; in blocks of 64 and full tiles it takes 0.65 to 0.76.
LONGEST_ON_CPU = 8
SHARE_ON_CPU = 8
# Prefix sums made by one product with a triangular matrix: the side of a TPU's matrix unit, which
# takes as long for fewer.
LONGEST_PRODUCT = 128

# Lists of coalitions, by a layer that adds.

ROWS_OF_LIST = 1 << 12  # per instance: the donors' parts for this number of rows are kept
NUMBERS_OF_LIST = 1 << 20  # of such parts, if a usual tile has fewer rows
INSTANCES_OF_LIST = 16  # of a tile
COALITIONS_OF_BITS = 512  # of a tile on a CPU: a pair's leaves are searched once for all of them
# Coalitions of a tile on an accelerator, where one call of the head takes several instances. A list
# is padded to whole tiles: one of 2,050 coalitions by an eighth.
COALITIONS_OF_LIST = 1 << 8
CALLS_OF_LIST = 8  # for which the donors' parts are computed once
LEAST_CALLS = 2  # with one, no loop would remain, and its body might compile differently
TILES_OF_LIST = 16  # in a dispatch
