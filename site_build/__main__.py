"""The command line: `python -m site_build [FOLDER]`, by default `build/pages`."""

from __future__ import annotations

import sys
from pathlib import Path

from site_build.pages import make

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "pages"
    count = make(ROOT, folder)
    sys.stdout.write(f"{count} pages in {folder}\n")
