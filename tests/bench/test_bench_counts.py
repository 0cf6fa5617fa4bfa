"""The lines over the bench's table: kinds that left JAX and peers that did not run are named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import counts, report


def table(**backends: tuple[str, str]) -> Any:
    """Kinds by name: (what is known of them, where they answer)."""
    kinds = {name: SimpleNamespace(backend=known) for name, (known, _) in backends.items()}
    models = {name: SimpleNamespace(backend=b, reason="a reason") for name, (_, b) in
              backends.items()}  # fmt: skip
    return SimpleNamespace(KINDS=kinds, asked=lambda name: (models[name], None))


def test_kinds_on_the_host_are_counted_and_named() -> None:
    line, left = counts.of_kinds(table(svc=("jax", "jax"), bagging=("host", "host")))
    assert line == "1 of 2 standard kinds run in JAX; on the host, as they must be: bagging."
    assert not left
    line, left = counts.of_kinds(table(svc=("jax", "host"), bagging=("host", "host")))
    assert line.startswith("0 of 2 standard kinds") and "LEFT JAX: svc (a reason)." in line
    assert left == ["svc"]


def test_peers_that_did_not_run_are_counted_and_named() -> None:
    row = "| {} | cpu | time | | | | {} | | | {} |"
    page = "\n".join(
        [
            row.format("T1", "met", "all is well"),
            row.format("T2", "not run", "not run: shap is not installed"),
            row.format("T9", "met", "LeverageSHAP not run: it is older"),
            row.format("T9", "met", "LeverageSHAP not run: it is older"),
        ]
    )
    assert counts.of_peers(page) == (
        "Peer comparisons that could not run: 2 (T2 on cpu, T9 on cpu)."
    )
    assert counts.of_peers(row.format("T1", "met", "")) == "Peer comparisons that could not run: 0."


@pytest.mark.parametrize("all_cases", [True, False])
def test_the_lines_stand_over_the_table(
    all_cases: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text(f"a\n{counts.BEGIN}\nold\n{counts.END}\n| T1 | cpu | |\n")
    monkeypatch.setattr(report, "HERE", tmp_path)
    monkeypatch.setattr(counts, "kinds", lambda: table(svc=("jax", "host")))
    assert counts.tell(True, all_cases) == (["standard kinds"] if all_cases else [])
    page = (tmp_path / "README.md").read_text()
    assert page.startswith("a\n") and page.endswith("\n| T1 | cpu | |\n")
    assert ("LEFT JAX: svc" in page) == all_cases and ("\nold\n" in page) != all_cases
    assert "Peer comparisons that could not run: 0." in page


def test_the_page_has_the_place_and_the_kinds_are_found() -> None:
    page = (report.HERE / "README.md").read_text()
    assert page.index(counts.BEGIN) < page.index(counts.END) < page.index(report.BEGIN)
    assert "random forest, 2" in counts.kinds().KINDS
