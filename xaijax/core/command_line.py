"""Adds a command of `xaijax` to argparse, and defines the types of its options.

An option that cannot be read ends the process with status 2, as argparse does.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any


def command_of(
    commands: Any,
    name: str,
    about: str,
    example: str,
    run: Callable[[argparse.Namespace], None] | None = None,
) -> argparse.ArgumentParser:
    """Adds a command whose help ends with an example; `run` is None if it has actions of its
    own. Each command has the option --no-compilation-cache, which `cli.main` reads.
    """
    command = commands.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        command.set_defaults(run=run)
    help_text = "do not keep compiled programs in the user's cache folder for the next run"
    command.add_argument("--no-compilation-cache", action="store_true", help=help_text)
    return command


def option(
    command: Any,
    name: str,
    about: str | None,
    type: Callable[[str], Any] | None = None,
    **more: Any,
) -> None:
    """Adds an option, "--rows N" with what stands for its value, or an argument, "file FILE"."""
    flag, _, shown = name.partition(" ")
    options = {"type": type, "metavar": shown or None}
    more |= {word: value for word, value in options.items() if value is not None}
    command.add_argument(flag, help=about, **more)


def whole(least: int) -> Callable[[str], int]:
    """The type of an option that is a whole number of `least` or more."""

    def whole_number(text: str) -> int:
        number = int(text)
        if not least <= number < 2**31:
            raise argparse.ArgumentTypeError(f"{number} is not a whole number of {least} or more")
        return number

    # argparse names the type where int() refuses the text: "invalid whole number value: 'x'".
    whole_number.__name__ = "whole number"
    return whole_number


def above_zero(text: str) -> float:
    """The type of an option that is a number above 0."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return number


above_zero.__name__ = "number"


def from_json(text: str) -> Any:
    """The type of an option that is a JSON text; returns the parsed value."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"it must be JSON, got {text!r}: {error}") from None
