"""How the bench reads compiled programs: turns of loops, kernels, products, bytes, host."""

from __future__ import annotations

import pytest

from bench.hlo import arithmetic, figures
from xaijax.commands.programs import NAMED_TURNS, UnreadProgram
from xaijax_kernels.engine.tiles import MOST_TURNS

LOOP = """
%body (state: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {{
  %state = (s32[], f32[8,4]) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %rows = f32[8,4] get-tuple-element(%state), index=1
  %made = f32[8,4] fusion(%rows), calls=%fused, backend_config={{"estimated_cycles":"10"}}
  ROOT %next = (s32[], f32[8,4]) tuple(%i, %made)
}}

%condition (state.1: (s32[], f32[8,4])) -> pred[] {{
  %state.1 = (s32[], f32[8,4]) parameter(0)
  %i.1 = s32[] get-tuple-element(%state.1), index=0
  %most = {most}
  ROOT %less = pred[] compare(%i.1, %most), direction=LT
}}

ENTRY %main (given: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {{
  %given = (s32[], f32[8,4]) parameter(0)
  ROOT %loop = (s32[], f32[8,4]) while(%given), condition=%condition, body=%body{known}
}}
"""
FUSED = """
%fused (rows.1: f32[8,4]) -> f32[8,4] {
  %rows.1 = f32[8,4] parameter(0)
  %square = f32[4,4] constant({...})
  ROOT %product = f32[8,4] dot(%rows.1, %square), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
ARGUMENT = "s32[] get-tuple-element(%state.1), index=1"
CONSTANT = "s32[]{:T(128)} constant(5)"
KNOWN = ', backend_config={"known_trip_count":{"n":"6"}}'
NAMED = ', metadata={op_name="jit(f)/at_most_9_turns/while/body/at_most_7_turns/while" source=1}'
AROUND = ', metadata={op_name="jit(f)/at_most_9_turns/while/body/while" source=1}'


@pytest.mark.parametrize(
    ("most", "known", "turns", "host"),
    [(ARGUMENT, KNOWN, 6, 0), (CONSTANT, "", 5, 0), (ARGUMENT, NAMED, 7, 1)],
    ids=["known", "constant", "named"],
)
def test_turns_of_a_loop(most: str, known: str, turns: int, host: int) -> None:
    found = figures(FUSED + LOOP.format(most=most, known=known), gpu=True)
    assert found.loops == [str(turns)]
    assert found.kernels == turns and found.cycles == 10 * turns
    assert found.host == host  # an argument is read by the host
    assert found.operations == turns * 2 * 8 * 4 * 4 and found.smallest == 8


def test_a_loop_without_a_number_of_turns_is_refused() -> None:
    for known in ("", AROUND):  # which names the loop around it
        with pytest.raises(UnreadProgram, match="MOST_TURNS"):
            figures(FUSED + LOOP.format(most=ARGUMENT, known=known), gpu=False)


BRANCHES = """
%cheap (a: f32[8]) -> f32[8] {
  %a = f32[8] parameter(0)
  ROOT %copied = f32[8] copy(%a)
}

%dear (b: f32[8]) -> f32[8] {
  %b = f32[8] parameter(0)
  %once = f32[8] copy(%b)
  ROOT %twice = f32[8] add(%once, %b)
}

ENTRY %main (p: pred[], x: f32[8]) -> f32[8] {
  %p = pred[] parameter(0)
  %x = f32[8] parameter(1)
  ROOT %one = f32[8] conditional(%p, %x, %x), true_computation=%cheap, false_computation=%dear
}
"""


def test_the_costlier_branch_counts() -> None:
    assert figures(BRANCHES, gpu=True).kernels == 2
    assert figures(BRANCHES, gpu=True).host == 1
    assert figures(BRANCHES, gpu=False).host == 0


SLICED = """
%part (all: f32[100,8], at: s32[]) -> f32[1,8] {
  %all = f32[100,8] parameter(0)
  %at = s32[] parameter(1)
  %zero = s32[] constant(0)
  ROOT %slice = f32[1,8] dynamic-slice(%all, %at, %zero), dynamic_slice_sizes={1,8}
}

ENTRY %main (all.1: f32[100,8], at.1: s32[]) -> f32[1,8] {
  %all.1 = f32[100,8] parameter(0)
  %at.1 = s32[] parameter(1)
  ROOT %fusion = f32[1,8] fusion(%all.1, %at.1), kind=kLoop, calls=%part
}
"""


def test_of_an_array_that_is_sliced_the_slice_counts() -> None:
    assert figures(SLICED, gpu=True).bytes == 2 * 4 * 8 + 4  # the slice twice, and its place


PRODUCT = """
ENTRY %main (a: {dtype}[64,8], b: {dtype}[8,16]) -> f32[64,16] {{
  %a = {dtype}[64,8] parameter(0)
  %b = {dtype}[8,16] parameter(1)
  ROOT %product = f32[64,16] dot(%a, %b), lhs_contracting_dims={{1}}{how}
}}
"""
GEMM = """
ENTRY %main (a: f32[64,8], b: f32[8,16]) -> (f32[64,16], s8[4]) {
  %a = f32[64,8] parameter(0)
  %b = f32[8,16] parameter(1)
  ROOT %product = (f32[64,16], s8[4]) custom-call(%a, %b), custom_call_target="__cublas$gemm", \
backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]},\
"precision_config":{"operand_precision":["DEFAULT","DEFAULT"],"algorithm":"ALG_UNSET"}}}
}
"""


@pytest.mark.parametrize(
    ("dtype", "how", "gpu", "numbers"),
    [
        ("f32", ", operand_precision={highest,highest}", True, "float32"),
        ("f32", ", operand_precision={highest,highest}", False, "float32"),
        ("f32", "", True, "tf32"),
        ("f32", "", False, "bfloat16"),
        ("f32", ", operand_precision={high,high}", False, "bfloat16 x3"),
        ("f32", ", algorithm=dot_tf32_tf32_f32", True, "tf32"),
        ("f32", ", algorithm=dot_bf16_bf16_f32_x6", True, "bfloat16 x6"),
        ("bf16", "", True, "bfloat16"),
        ("bf16", ", operand_precision={highest,highest}", False, "bfloat16"),
    ],
)
def test_numbers_that_a_product_multiplies(dtype: str, how: str, gpu: bool, numbers: str) -> None:
    text = PRODUCT.format(dtype=dtype, how=how)
    assert arithmetic(text, gpu) == {numbers: {"float32"}}
    assert figures(text, gpu).arithmetic == {numbers: 2 * 64 * 8 * 16}


WINDOW = """
ENTRY %main (a: f32[{left}], b: f32[{right}]) -> f32[{out}] {{
  %a = f32[{left}] parameter(0)
  %b = f32[{right}] parameter(1)
  ROOT %product = f32[{out}] convolution(%a, %b), window={{{window}}}, dim_labels={labels}
}}
"""


@pytest.mark.parametrize(
    ("left", "right", "out", "window", "labels", "rows", "operations"),
    [
        # 64 units of 12 columns, for 8 x 1,024 rows: a TPU's compiler turns the rows' axis around.
        ("12,64,1", "8,1024,12", "64,8,1024", "size=8 pad=7_7 rhs_reversal=1", "fb0_0oi->b0f",
         8192, 2 * 12 * 64 * 8192),
        # 4 products of [64, 8] and [8, 16], next to each other.
        ("4,64,8", "4,8,16", "4,64,16", "size=4 stride=3 lhs_dilate=4", "0bf_0io->0bf",
         256, 4 * 2 * 64 * 8 * 16),
        # 16 channels of 5 x 5 pixels, for 100 images of 28 x 28.
        ("100,28,28,1", "5,5,1,16", "100,24,24,16", "size=5x5", "b01f_01io->b01f",
         57600, 2 * 25 * 16 * 57600),
    ],
    ids=["turned", "batch", "pixels"],
)  # fmt: skip
def test_rows_of_a_product_whose_window_moves(
    left: str, right: str, out: str, window: str, labels: str, rows: int, operations: int
) -> None:
    text = WINDOW.format(left=left, right=right, out=out, window=window, labels=labels)
    found = figures(text, gpu=False)
    assert (found.smallest, sum(found.arithmetic.values())) == (rows, operations)


def test_a_product_of_a_library_counts() -> None:
    assert figures(GEMM, gpu=True).arithmetic == {"tf32": 2 * 64 * 8 * 16}


def test_transfers_and_collectives_are_counted() -> None:
    text = PRODUCT.format(dtype="f32", how="").replace("ROOT %product", "%product")
    for line, name in (
        ("  ROOT %all = f32[64,16] all-reduce(%product), to_apply=%add", "collectives"),
        (
            '  ROOT %out = f32[64,16] custom-call(%product), custom_call_target="xla_ffi_callback"',
            "host",
        ),
    ):
        found = figures(text.replace("\n}", f"\n{line}\n}}"), gpu=False)
        assert getattr(found, name) == 1
    assert figures(text.replace("f32[64,8]", "f64[64,8]"), gpu=False).float64


def test_loops_are_read_as_the_kernels_name_them():
    found = NAMED_TURNS.search(f'op_name="jit(f)/{MOST_TURNS.format(12)}/while"')
    assert found is not None and found[1] == "12"
