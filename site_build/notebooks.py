"""A notebook that was run and stored, as a page: nothing is run here."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

FOLDED = '<details markdown="1"><summary>Code</summary>\n\n{code}\n\n</details>'


def write(notebook: Path, folder: Path) -> None:
    """Write `folder/NAME.md`, and the pictures of its cells into `folder/NAME/`."""
    pictures = folder / notebook.stem
    pictures.mkdir(parents=True)
    parts = []
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            code = f"```python\n{source}\n```"
            if cell["metadata"].get("jupyter", {}).get("source_hidden"):
                code = FOLDED.format(code=code)
            parts += [code, *_outputs(cell["outputs"], pictures)]
    (folder / f"{notebook.stem}.md").write_text("\n\n".join(parts) + "\n", "utf-8")


def _outputs(outputs: list[dict[str, Any]], pictures: Path) -> list[str]:
    """The outputs of a cell in order: printed text, pictures, tables, results."""
    parts = []
    for output in outputs:
        data = output.get("data", {})
        if "image/png" in data:
            file = pictures / f"{len(list(pictures.iterdir())) + 1}.png"
            file.write_bytes(base64.b64decode(data["image/png"]))
            parts.append(f"![what the cell above draws]({pictures.name}/{file.name})")
        elif "text/html" in data:
            # A blank line would end the HTML in Markdown.
            table = [line for line in "".join(data["text/html"]).splitlines() if line.strip()]
            parts.append("\n".join(table))
        else:
            text = output["text"] if output["output_type"] == "stream" else data["text/plain"]
            parts.append(f"```text\n{''.join(text).rstrip()}\n```")
    return parts
