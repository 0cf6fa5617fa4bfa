"""Hooks that mkdocs calls as it builds: facts of the package, and formulas.

Pages have formulas as GitHub reads them, `$x$` and blocks of `math`, in LaTeX. Arithmatex marks
them, and here each becomes MathML, which browsers show without a script.
"""

from __future__ import annotations

import html
import re
import tomllib
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

from xaijax.core.version import __version__

INSTEAD = {  # what few fonts have, and bars of sizes |S|, which are no relations
    "&#x029F5;": "&#x0005C;",
    '<mo stretchy="false">&#x0007C;</mo>': '<mo stretchy="false" lspace="0" rspace="0">|</mo>',
}
MARKED = re.compile(r'(<(?:span|div) class="arithmatex">)\\([(\[])(.*?)\\[)\]](?=</)', re.DOTALL)


def on_config(config: Any, **_: Any) -> Any:
    """The site's name with the version, and the repository's address, from where each is stated."""
    pyproject = Path(config.config_file_path).with_name("pyproject.toml").read_text("utf-8")
    config.site_name += f" {__version__}"
    config.repo_url = tomllib.loads(pyproject)["project"]["urls"]["Repository"]
    config.repo_name = config.repo_url.removeprefix("https://github.com/")
    return config


def on_page_content(output: str, **_: Any) -> str:
    """A page's HTML with MathML in the place of LaTeX."""
    return MARKED.sub(_rendered, output)


def _rendered(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    formula = convert(html.unescape(match[3]).strip(), display=display)
    for symbol, instead in INSTEAD.items():
        formula = formula.replace(symbol, instead)
    return match[1] + formula
