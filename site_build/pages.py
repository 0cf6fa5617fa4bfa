"""All pages of the site into one folder that mirrors the repository.

README.md is the start page. Notebooks and examples become Markdown in the same folders, so that
only the ending of a link changes.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from site_build import api, gallery, notebooks, outputs
from site_build.names import address, public

COPIED = (
    *("*.md", "*.cff", "LICENSE", "docs/**/*.md", "docs/pictures/*", "docs/reproduction/*.py"),
    *("bench/*.md", "bench/compilers.py", "bench/baselines/*.py"),
)
# Links to notebooks and examples, which become links to .md.
MOVED = re.compile(
    r"(\]\((?:(?:\.\./|[\w-]+/)*[\w-]+(?=\.ipynb)|(?:\.\./)*examples/[\w-]+(?=\.py)))"
    r"\.(?:ipynb|py)(?=[#)])"
)
ITEM = re.compile(r" *([-*]|\d+\.) ")
LINK = re.compile(r"(\[[^\]]*\]\([^)]*\))|`xj\.([\w.]+)`")
NAME = re.compile(r"\bxj\.((?:\w+\.)?\w+)")
EVERYWHERE = ("as_model",)  # on nearly every page


def make(root: Path, folder: Path) -> int:
    """Writes all pages of the repository at `root` into `folder`; returns their number.

    The old content of the folder is removed. Errors of an example or of a page's code are raised,
    and so is one for code that draws nothing.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for pattern in COPIED:
        for file in sorted(root.glob(pattern)):
            _copy(file, folder / file.relative_to(root))
    for file in sorted((root / "notebooks").glob("*.ipynb")):
        notebooks.write(file, folder / "notebooks")
    examples = sorted((root / "examples").glob("*.py"))
    drawn = folder / "examples" / "pictures"
    gallery.draw(examples, drawn)
    outputs.write(folder / "docs")
    for shown in (folder / "docs" / "pictures").glob("*.png"):  # those of a script are drawn anew
        if (new := drawn / f"plot_{shown.name}").exists():
            shutil.copyfile(new, shown)
    written = {**gallery.pages(examples), **api.pages(examples)}
    for path, text in written.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    shown = {gallery.title(example): example for example in filter(gallery.draws, examples)}
    for page in folder.rglob("*.md"):
        text = for_mkdocs(page.read_text("utf-8"))
        if page.parent.name == "docs":
            text = with_links(see_also(text, shown))
        page.write_text(text, "utf-8")
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


def with_links(text: str) -> str:
    """A page whose names of the library, `xj.NAME`, lead to the API."""
    lines, code = [], False
    for line in text.split("\n"):
        code ^= line.lstrip().startswith("```")
        lines.append(line if code or line.startswith("#") else LINK.sub(_linked, line))
    return "\n".join(lines)


def _linked(match: re.Match[str]) -> str:
    known = match[2] in public()
    return f"[{match[0]}][{address(match[2])}]" if known else match[0]


def see_also(text: str, shown: dict[str, Path]) -> str:
    """A page of a method, with the API and the gallery below what it is for.

    `shown` has the gallery, {function that draws: script}.
    """
    top, heading, rest = text.partition("**Use it when**")
    if not heading:
        return text
    names = set(NAME.findall(text)) & set(public())
    linked = sorted(
        name
        for name in names
        if "." not in name and name not in EVERYWHERE and "Warning" not in name
    )
    drawn = [f"[{name}](../examples/{shown[name].stem}.md)" for name in shown if name in names]
    drawn = drawn or ["[all pictures](../examples/index.md)"]
    links = ", ".join(f"`xj.{name}`" for name in linked)
    line = f"**API:** {links}. **Gallery:** {', '.join(drawn)}."
    use, end, rest = rest.partition("\n\n")
    return f"{top}{heading}{use}\n\n{line}{end}{rest}"


def _in_list(line: str) -> bool:
    """Whether a line is an item or belongs to one."""
    return bool(ITEM.match(line)) or line.startswith("  ")
