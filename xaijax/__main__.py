"""`python -m xaijax` is the command `xaijax`."""

import sys

from xaijax.cli import main

if __name__ == "__main__":
    sys.exit(main())
