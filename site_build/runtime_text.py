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
EXAMPLE_LAST = re.compile(r"^(Args:\n(?s:.*?)\n)(Examples:\n(?:(?: +.*)?\n)+)", re.MULTILINE)


class RuntimeText(griffe.Extension):
    """Changes the text of a class or function after it is read, and before it is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Asked by griffe for each object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = for_griffe(filled(obj.docstring.value) or "")


def for_griffe(text: str) -> str:
    """A docstring in griffe's words, with its example before the arguments."""
    text = text.replace('"] [', '"] \\[')  # stats["dof"] [N] is no link
    text = text.replace("*F]", "\\*F]")  # [B, *F] ... [N, *F] is no emphasis
    # griffe has the section in the plural; one that it does not know would be no code.
    text = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
    return EXAMPLE_LAST.sub(lambda found: f"{found[2].rstrip()}\n\n{found[1]}", text + "\n").strip()
