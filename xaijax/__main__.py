"""Runs the command `xaijax` for `python -m xaijax`."""

import sys

from xaijax.commands.cli import main

if __name__ == "__main__":
    sys.exit(main())
