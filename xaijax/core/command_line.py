"""A command of `xaijax`, as argparse takes it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any


def command_of(
    commands: Any,
    name: str,
    about: str,
    example: str,
    run: Callable[[argparse.Namespace], None] | None = None,
) -> argparse.ArgumentParser:
    """A command whose help ends with an example; run: None where it has actions of its own."""
    command = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        command.set_defaults(run=run)
    return command
