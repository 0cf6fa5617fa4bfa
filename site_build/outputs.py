"""Runs the first code of a page; the page shows its picture and its text above the code.

A page shows its own picture, `pictures/NAME.png` where NAME is the page's, and the text that its
code prints until the picture is there. Both are made by running that code:

    python -m site_build.outputs [shapley ...]     writes them into `docs/` again
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED = re.compile(r"(?<=^```text\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)


def shows(page: Path) -> bool:
    """Whether the page shows a picture of its own."""
    return f"](pictures/{page.stem}.png)" in page.read_text("utf-8")


def run(page: Path, picture: Path) -> str:
    """Run the page's code until it has drawn its picture; returns the page with what it printed.

    Raises what the code raises, and RuntimeError if no block draws the picture.
    """
    text, names, printed = page.read_text("utf-8"), {"__name__": page.stem}, io.StringIO()
    matplotlib.use("Agg")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            drawn = Path(folder) / f"{page.stem}.png"
            for place, block in enumerate(CODE.findall(text), start=1):
                with contextlib.redirect_stdout(printed):
                    exec(compile(block, f"{page.name}, block {place}", "exec"), names)
                if drawn.is_file():
                    picture.write_bytes(drawn.read_bytes())
                    return PRINTED.sub(lambda _: printed.getvalue(), text, count=1)
        finally:
            os.chdir(before)
            plt.close("all")
    raise RuntimeError(
        f"{page.name} shows pictures/{page.stem}.png, and none of its code draws it."
    )


def write(docs: Path, names: Collection[str] = ()) -> int:
    """Write picture and text of the pages in the folder, or of those named; returns the count."""
    pages = [page for page in sorted(docs.glob("*.md")) if shows(page)]
    pages = [page for page in pages if page.stem in names or not names]
    for page in pages:
        page.write_text(run(page, docs / "pictures" / f"{page.stem}.png"), "utf-8")
    return len(pages)


if __name__ == "__main__":
    count = write(Path(__file__).resolve().parents[1] / "docs", sys.argv[1:])
    sys.stdout.write(f"{count} pages\n")
