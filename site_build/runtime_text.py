"""For mkdocstrings: docstrings as `help()` shows them, in the words that griffe knows.

mkdocstrings reads the source. What several docstrings say alike stands once, in `SHARED` of
`xaijax/core/public.py`, and replaces `{limits}` and the like at import; here the site gets it too.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

from xaijax.core.public import filled


class RuntimeText(griffe.Extension):
    """Changes the text of a class or function after it is read, and before it is shown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Asked by griffe for each object that it has read."""
        if obj.docstring is None:
            return
        text = filled(obj.docstring.value) or ""
        text = text.replace('"] [', '"] \\[')  # stats["dof"] [N] is no link
        # griffe has the section in the plural; one that it does not know would be no code.
        obj.docstring.value = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
