"""The gallery: `examples/plot_*.py` draw one picture each, of the function that names the page.

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
GROUPS = {  # {heading: scripts that draw, the most used first}
    "Tables": (
        *("beeswarm", "waterfall", "bar_of_outputs", "scatter", "force", "heatmap"),
        *("interactions", "network", "dependence", "pairs", "profile", "worth", "correlation"),
    ),
    "Images": ("pixels", "image"),
    "Text": ("tokens",),
    "Rules": ("rules", "kept"),
    "Comparisons": (
        *("methods", "compare", "groups", "faithfulness", "convergence"),
        *("background_spread", "precision"),
    ),
}


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
    written = {f"examples/{example.stem}.md": _page(example) for example in examples}
    return {"examples/index.md": _gallery(examples), **written}


def title(example: Path) -> str:
    """The function that draws it, or the first line of its docstring."""
    functions = [name for name in sorted(used(example)) if name.startswith("plots.")]
    return functions[0] if draws(example) and functions else _subtitle(example)


def _subtitle(example: Path) -> str:
    """The first line of its docstring, without the stop."""
    return _text(example).partition("\n")[0].rstrip(".:")


def _text(example: Path) -> str:
    text = ast.get_docstring(ast.parse(example.read_text("utf-8")))
    if not text:
        raise RuntimeError(f"{example.name} has no docstring, which its page would begin with.")
    return text


def _picture(example: Path) -> str:
    return f"![{_subtitle(example)}](pictures/{example.stem}.png)"


def _page(example: Path) -> str:
    rest = _text(example)
    if title(example) == _subtitle(example):
        rest = rest.partition("\n")[2].strip("\n")
    source = example.read_text("utf-8").rstrip()
    names = ", ".join(f"[`xj.{name}`][{address(name)}]" for name in sorted(used(example)))
    parts = [f"# {title(example)}", rest]
    parts += [_picture(example)] if draws(example) else []
    parts += [f"```python\n{source}\n```", f"File: `examples/{example.name}`. In it: {names}."]
    return "\n\n".join(parts) + "\n"


def _gallery(examples: list[Path]) -> str:
    by_name = {example.stem: example for example in examples}
    longer = [
        f"- [{title(example)}]({example.stem}.md)" for example in examples if not draws(example)
    ]
    parts = [
        "# Gallery",
        "Each picture is drawn by a script of less than 60 lines, on data that are bundled "
        "with scikit-learn or written in the script, when this site is built.",
    ]
    for heading, names in GROUPS.items():
        cards = [_card(by_name[f"plot_{name}"]) for name in names]
        parts += [f"## {heading}", '<div class="grid cards" markdown>', *cards, "</div>"]
    return "\n\n".join([*parts, "## Longer examples", "\n".join(longer)]) + "\n"


def _card(example: Path) -> str:
    link = f"[{title(example)}]({example.stem}.md)"
    return f"-   [{_picture(example)}]({example.stem}.md)\n\n    {link}: {_subtitle(example)}"
