"""All pages of the site into one folder that mirrors the repository.

README.md is the start page. Notebooks and examples become Markdown beside where they were, so that
of a link only its ending changes.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from site_build import api, gallery, notebooks

COPIED = (
    *("*.md", "*.cff", "LICENSE", "docs/**/*.md", "docs/pictures/*", "docs/reproduction/*.py"),
    *("bench/*.md", "bench/baselines/*.py"),
)
# What has become a page: its link ends in .md.
MOVED = re.compile(
    r"(\]\((?:(?:\.\./|[\w-]+/)*[\w-]+(?=\.ipynb)|(?:\.\./)*examples/[\w-]+(?=\.py)))"
    r"\.(?:ipynb|py)(?=[#)])"
)
ITEM = re.compile(r" *([-*]|\d+\.) ")


def make(root: Path, folder: Path) -> int:
    """Write all pages of the repository at `root` into `folder`; returns their number.

    What stood in the folder is removed. An example that fails, or that draws nothing, ends it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for pattern in COPIED:
        for file in sorted(root.glob(pattern)):
            _copy(file, folder / file.relative_to(root))
    for file in sorted((root / "notebooks").glob("*.ipynb")):
        notebooks.write(file, folder / "notebooks")
    examples = sorted((root / "examples").glob("*.py"))
    gallery.draw(examples, folder / "examples" / "pictures")
    written = {**gallery.pages(examples), **api.pages(examples)}
    for path, text in written.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    for page in folder.rglob("*.md"):
        page.write_text(for_mkdocs(page.read_text("utf-8")), "utf-8")
    return len(list(folder.rglob("*.md")))


def _copy(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, to)


def for_mkdocs(text: str) -> str:
    """A page as GitHub reads it, for Python-Markdown: its links, and blank lines before lists.

    GitHub lets a list follow a line of text; Python-Markdown would make it a part of that line.
    """
    lines, code, before = [], False, ""
    for line in text.split("\n"):
        code ^= line.lstrip().startswith("```")
        if not code:
            line = MOVED.sub(r"\1.md", line)
            if ITEM.match(line) and before.strip() and not _in_list(before):
                lines.append("")
        lines.append(line)
        before = line
    return "\n".join(lines)


def _in_list(line: str) -> bool:
    """Whether a line is an item, or goes on with one."""
    return bool(ITEM.match(line)) or line.startswith("  ")
