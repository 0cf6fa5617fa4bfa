"""The gallery: `examples/plot_*.py` draw one picture each; every example is a page.

The other examples are longer and need tables or extras. They are shown, and not run here: the tests
run them.
"""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import matplotlib

from site_build.names import address, used

Pages = dict[str, str]  # {path in the folder of pages: Markdown}


def draws(example: Path) -> bool:
    """Whether the build runs it."""
    return example.stem.startswith("plot_")


def draw(examples: list[Path], folder: Path) -> None:
    """Run each script that draws; its picture is `folder/NAME.png`.

    Raises what a script raises, and RuntimeError where it draws nothing.
    """
    matplotlib.use("Agg")
    folder.mkdir(parents=True)
    for example in filter(draws, examples):
        picture = folder / f"{example.stem}.png"
        runpy.run_path(str(example))["main"](str(picture))
        if not picture.is_file():
            raise RuntimeError(f"{example.name} has drawn nothing: main(picture) writes the file.")


def pages(examples: list[Path]) -> Pages:
    """The gallery, and a page for each example."""
    written = {f"examples/{one.stem}.md": _page(one) for one in examples}
    return {"examples/index.md": _gallery(examples), **written}


def title(example: Path) -> str:
    """The first line of its docstring, without the stop."""
    return _text(example).partition("\n")[0].rstrip(".:")


def _text(example: Path) -> str:
    found = ast.get_docstring(ast.parse(example.read_text("utf-8")))
    if not found:
        raise RuntimeError(f"{example.name} has no docstring, which its page would begin with.")
    return found


def _picture(example: Path) -> str:
    return f"![{title(example)}](pictures/{example.stem}.png)"


def _page(example: Path) -> str:
    rest = _text(example).partition("\n")[2].strip("\n")
    source = example.read_text("utf-8").rstrip()
    names = ", ".join(f"[`xj.{name}`][{address(name)}]" for name in sorted(used(example)))
    parts = [f"# {title(example)}", rest]
    parts += [_picture(example)] if draws(example) else []
    parts += [f"```python\n{source}\n```", f"File: `examples/{example.name}`. In it: {names}."]
    return "\n\n".join(parts) + "\n"


def _gallery(examples: list[Path]) -> str:
    cards = [
        f"-   [{_picture(one)}]({one.stem}.md)\n\n    [{title(one)}]({one.stem}.md)"
        for one in examples
        if draws(one)
    ]
    longer = [f"- [{title(one)}]({one.stem}.md)" for one in examples if not draws(one)]
    return "\n\n".join(
        [
            "# Gallery",
            "Each picture is drawn by a script of less than 60 lines, on data that are bundled "
            "with scikit-learn or stand in the script, when this site is built.",
            '<div class="grid cards" markdown>',
            *cards,
            "</div>",
            "## Longer examples",
            "\n".join(longer),
        ]
    )
