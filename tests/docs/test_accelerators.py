"""The table of docs/accelerators.md is what its example prints."""

from __future__ import annotations

import re
import runpy

import pytest
from repository import ROOT

pytest.importorskip("matplotlib", reason="needs the extra [plots]")

LINE = re.compile(r"^\| (\d x \d+) \| (\S+) \| (\S+) \| (\S+) \|$", re.M)


@pytest.mark.slow
def test_the_errors_of_precisions_are_those_that_are_measured(tmp_path, capsys) -> None:
    runpy.run_path(str(ROOT / "examples" / "plot_precision.py"))["main"](str(tmp_path / "a.png"))
    measured = dict(_table(capsys.readouterr().out))
    written = dict(_table((ROOT / "docs" / "accelerators.md").read_text("utf-8")))
    assert list(written) == list(measured) and len(written) == 3
    for name, errors in written.items():
        # One digit is shown, and the largest of 48 roundings follows the order of sums: within 3.
        for said, found in zip(errors, measured[name], strict=True):
            assert found / 3 <= said <= 3 * found, name
        assert errors[0] < 1e-6 < 1e-4 < errors[1] < 1e-3 < errors[2] < 1e-2


def _table(text: str) -> list[tuple[str, list[float]]]:
    return [(name, [float(one) for one in rest]) for name, *rest in LINE.findall(text)]
