"""For mkdocstrings: docstrings as `help()` shows them, in the words that griffe knows.

mkdocstrings reads the source. The texts that several docstrings share are in `SHARED` of
`xaijax/core/public.py` and replace `{memory}` and the like at import. This module does the same for
the site.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

from xaijax.core.public import filled

# The arguments and what follows them, and the example, which the site shows next to them: before.
EXAMPLE_LAST = re.compile(
    r"^(Args:\n.*?\n)(Examples:\n(?:(?: +.*)?\n?)+)", re.MULTILINE | re.DOTALL
)


class RuntimeText(griffe.Extension):
    """Changes the text of a class or function after it is read, and before it is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Asked by griffe for each object that it has read."""
        if obj.docstring is None:
            return
        text = filled(obj.docstring.value) or ""
        text = text.replace('"] [', '"] \\[')  # stats["dof"] [N] is no link
        # griffe has the section in the plural; one that it does not know would be no code.
        text = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
        obj.docstring.value = EXAMPLE_LAST.sub(r"\2\n\1", text)
