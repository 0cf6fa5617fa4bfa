"""Sizes of what programs take at a time, by the platform that they are compiled for.

Results on a CPU are identical bit for bit only as long as its sizes stay: a product rounds by its
number of rows. Sizes of a CPU were measured. Those of a GPU and a TPU follow from the compilers for
an H200 and a v5e (`bench/ACCELERATORS.md`) and from three facts:

- each operation of a loop's turn is a kernel, which a GPU takes some 3 us to start;
- a product of few rows leaves most of the device idle;
- the L2 cache of an H200 has 50 MB, and the vector memory of a v5e 128 MB; what a layer writes
  there, the next one reads at several times the speed of the device's memory.

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
# Numbers in the widest layer of a tile. CPU: 4 MB of float32 stays in the cache, and 16,384 rows of
# a 64-wide layer ran fastest. GPU: what a layer reads and writes is some L2 caches, so that a turn
# hides the start of its kernels. TPU: a layer and the next stay in the vector memory.
_NUMBERS = {"cpu": 1 << 20, "gpu": 1 << 23, "tpu": 1 << 22}
_LARGEST = {"cpu": 1 << 14, "gpu": 1 << 17, "tpu": 1 << 16}
# Attention over 64 words makes 8,192 numbers a row, several times: a row took 32 us in tiles of 32
# and 64, 41 in 128, 55 in 256.
_NUMBERS_OF_WIDE = {"cpu": 1 << 19}
SMALLEST_OF_WIDE = 32
# Operations of a turn that take a GPU 100 microseconds at 40 TFLOP/s, as long as it takes to start
# the some 40 kernels of a turn. Almost free models would have tiles of any size.
TURN_OPERATIONS = 4e9
DISPATCH_OPERATIONS = 64e9  # that hide what a dispatch costs
_LARGEST_OF_CHEAP = 1 << 19
# Platforms that test the condition of a loop where the numbers are; on a TPU the device does it
# itself.
_STOPS_FOR_FREE = ("cpu", "tpu")


def counted(platform: str) -> bool:
    """Whether a loop's turns must be known when it is compiled for `platform`."""
    return platform not in _STOPS_FOR_FREE


def tile_rows(width: int, itemsize: int, platform: str, operations: float = 0.0) -> int:
    """Rows of one tile: a power of two from 256, a pure function of its arguments.

    operations: those of the model for a row, where they are known (`operations.py`). A tile is not
    less than a turn's worth of them on a GPU.
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
    """Number T of tiles of `rows` rows in a dispatch; operations: those of the model for a row, 0
    if unknown.

    If all T turns are always made, T is no larger than hides what a dispatch costs, because a small
    question waits for all of them.
    """
    most = TILES_PER_DISPATCH * max(1, SMALLEST_TILE // rows)
    if not counted(platform) or operations <= 0:
        return most
    return max(1, min(most, math.ceil(DISPATCH_OPERATIONS / (rows * operations))))


def rows_of_wide(rows: int, width: int, weights: int, itemsize: int, platform: str) -> int:
    """`rows`, halved from SMALLEST_TILE on where a tile makes more numbers than stay in the cache,
    as long as they outnumber the weights, which each tile reads.
    """
    numbers = _NUMBERS_OF_WIDE.get(platform, math.inf) * 4 / itemsize
    while SMALLEST_OF_WIDE < rows <= SMALLEST_TILE and rows * width > max(numbers, 2 * weights):
        rows //= 2
    return rows


# Values in a group of tiles. One product over many pairs runs on all cores, and a tile's few pairs
# alone do not: a third of the time on two cores.
_GROUP_VALUES = {"cpu": 1 << 19, "gpu": 1 << 22, "tpu": 1 << 22}
_OF_A_VALUE = 32  # bytes that a group takes for each value: what is transposed, its change, copies


def group_tiles(rows: int, outputs: int, platform: str, most: int) -> int:
    """Tiles that are reduced together, a pure function of its arguments.

    most: bytes that the reduction may take, some of the values themselves.
    """
    values = min(_GROUP_VALUES[kind_of(platform)], most // _OF_A_VALUE)
    return max(1, values // (rows * outputs))


LANES = 128  # numbers of a TPU's vector along its last axis

# Structures: sub-coalitions without their rows.

# A product rounds its last few rows in another way, and a pair's bits must not depend on its place.
WHOLE_ROWS = 256
# Numbers of a layer that go through the head together. CPU: half of a core's fast memory.
# GPU and TPU: what a layer of 64 units reads and writes for 98,304 rows takes 50 MB, which the L2
# cache of an H200 holds, and half the vector memory of a v5e.
_LAYER = {"cpu": 1 << 14, "gpu": 6 << 20, "tpu": 6 << 20}
_WIDE_LAYER = 1 << 18  # CPU: of a layer whose head's weights would be read for a few rows


def head_rows(width: int, platform: str, itemsize: int = 4) -> int:
    """Rows of a layer of `width` numbers that go through the head together, at most."""
    numbers = _LAYER.get(platform, _LAYER["gpu"])
    if platform == "cpu":
        return 1 << max(0, (numbers // width).bit_length() - 1)
    return max(1, numbers * 4 // (itemsize * width))


def head_rows_of_wide(width: int) -> int:
    """The same on a CPU for a layer that may be wide."""
    return 1 << max(0, (_WIDE_LAYER // width).bit_length() - 1)


def evenly(count: int, most: int) -> int:
    """Things of one of several lots of `count` of them, at most `most`; the last lot is filled up
    with as few as possible.
    """
    return -(-count // -(-count // max(1, most)))


def blocks_of(rows: int, most: int, bits: int) -> int:
    """Rows of one of several equal blocks of `rows` rows, at most `most` where that is possible.

    A block has full slots of 2^bits rows, or a power of two that divides a slot. Nothing can be
    filled up: callers have a number of slots that is a power of two, or see `donors_at_once`.
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


# Rows whose terms are made together on a CPU: as many numbers as there are terms stay in the cache.
_OF_TERMS = 256


def rows_of_terms(terms: int, platform: str) -> int:
    """Rows whose terms (support vectors) are made together; on a GPU and a TPU as for a layer."""
    if platform == "cpu":
        return _OF_TERMS
    return max(_OF_TERMS, 1 << head_rows(max(1, terms), platform).bit_length() - 1)


# Rows of products whose factors are made together where all of them would make more than
# NUMBERS_OF_PARTS, and leave a CPU's cache; these are few elsewhere too, where no loop is hot.
FEW_ROWS, NUMBERS_OF_PARTS = 16, 1 << 20
# Rows of full blocks of a layer that is a sum of wide parts: see WHOLE_ROWS.
ROWS_OF_WIDE = 16

# A few coalitions crossed with distinct donors: of one call of the head, 2^11 rows. A tree's
# thresholds and most codes leave a player few values: blocks of 32 donors, mostly filled up, take
# logistic regression 1.4 times as long on a CPU. Elsewhere they are the same: the strategy has no
# layout for accelerators.
INSTANCES_OF_CROSSING, DONORS_OF_CROSSING = 128, 16

# Leaves of trees that some sub-coalition reaches, on a CPU: their half tables stay in a core's fast
# memory. Elsewhere all leaves are one product.
LEAVES = 512


def pairs_together(terms: int, players: int, platform: str, pairs: int) -> int:
    """Pairs of the `pairs` whose half tables of `terms` numbers a row are one product.

    CPU: two, which two cores share. GPU and TPU: as a layer of the tables' rows, evenly.
    """
    if platform == "cpu":
        return 2 if pairs % 2 == 0 else 1
    tables = (1 << players // 2) + (1 << players - players // 2)
    return evenly(pairs, head_rows(max(1, terms), platform) // tables)


# Averaged tables. CPU: donors of a block, whose sum is not compensated. Elsewhere all donors of a
# tile are one sum, whose additions keep what they lose.
MOST_DONORS = 16
ROWS_OF_MEANS = 1 << 19  # of an instance and a segment of donors
# In a dispatch. Its instances are one product of this number of rows on a GPU and a TPU, also
# where a small question has fewer tiles: bits do not follow the question.
TILES_OF_MEANS = 16


def donors_at_once(donors: int, players: int, block: int, most: int) -> int:
    """Donors of a tile on a GPU or a TPU, at most `most` where that is possible: as many in each
    tile and in each of its blocks of up to `block` rows, with few that fill up.
    """
    segments = -(-donors // max(1, min(most, ROWS_OF_MEANS >> players)))
    each = -(-donors // segments)
    fits = block >> players
    if fits == 0:
        return each
    blocks = -(-each // fits)
    return -(-each // blocks) * blocks


def trees_together(rows: int, trees: int) -> int:
    """Trees whose leaves rows look for together on a GPU and a TPU, evenly. Places of 16 Mi rows
    and trees are 64 MB, and a level of all of them is two kernels.
    """
    return evenly(trees, (1 << 24) // rows)


# Training rows of one product of nearest neighbours. CPU: what a tile makes of them stays in the
# cache. GPU and TPU: a tile has as many rows as what is made of each allows (`tile_rows`), and
# more training rows would only take memory.
TRAINING = 2048


# Rows of one call of a head over those of a plain tile. GPU: a turn starts some 10 kernels, and a
# layer of these rows, 42 MB, stays in the 50 MB of an H200's L2. TPU: a turn has some 25 small
# steps of 2,000 cycles, whatever its rows; two layers of these rows stay in a v5e's VMEM.
LARGER = {"gpu": 5 / 4, "tpu": 2}
STEPS_OF_TURNS = 4


def rows_of_call(rows: int, platform: str) -> int:
    """Rows of one call of a head on an accelerator, where a plain tile has `rows`."""
    return int(rows * LARGER.get(platform, LARGER["gpu"]))


def turns_of(needed: int, T: int, devices: int) -> int:
    """Turns of a dispatch that makes all of them: T, or fewer for a small question; few different
    numbers, so that similar questions run one program.
    """
    step = -(-T // STEPS_OF_TURNS // devices) * devices
    return min(T, -(-max(1, needed) // step) * step)


# Gradients. A backward pass holds more at a time than a forward pass: on a CPU a quarter of the
# rows stays in the cache, and takes no longer per row. On a GPU and a TPU what is kept is in the
# device's memory in either case.
_NARROWER = {"cpu": 4}


def rows_of_gradients(width: int, itemsize: int, platform: str, operations: float) -> int:
    """Rows of a tile of gradients, by the widest layer and the operations of a row."""
    rows = tile_rows(width * _NARROWER.get(platform, 1), itemsize, platform, operations)
    # Each line has its points in a row: no power of two is needed.
    return rows if platform == "cpu" else rows_of_call(rows, platform)


# Walks along orders of players.

LONGEST_BLOCK = 64  # sizes that go through the head in one call
# A CPU takes its layers through the cache of a core: few sizes, which XLA then writes out without a
# loop, and an eighth of a plain tile. For a 64-64-64-1 with 100 donors the head alone is then 0.80
# to 0.96 of the processor time; in blocks of 64 and full tiles it is 0.65 to 0.76.
LONGEST_ON_CPU = 8
SHARE_ON_CPU = 8
# Sizes that one product with a triangle makes: the side of a TPU's unit, which takes as long for
# fewer.
LONGEST_PRODUCT = 128

# Lists of coalitions, by a layer that adds.

ROWS_OF_LIST = 1 << 12  # for each instance: the donors' parts of this number of rows are kept
NUMBERS_OF_LIST = 1 << 20  # of such parts, where a usual tile has fewer rows
INSTANCES_OF_LIST = 16  # of a tile
# Coalitions of a tile of an accelerator, where one call of the head takes several instances. A list
# is filled up to whole tiles: that of 2,050 coalitions by an eighth.
COALITIONS_OF_LIST = 1 << 8
CALLS_OF_LIST = 8  # for which the donors' parts are made once
LEAST_CALLS = 2  # of one, no loop would be left, and what a turn does might be compiled otherwise
TILES_OF_LIST = 16  # in a dispatch
