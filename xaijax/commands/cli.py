"""Implements the command `xaijax`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import jax

from xaijax.commands import demo
from xaijax.commands.doctor import add_doctor
from xaijax.commands.explain import add_aec, add_anchors, add_explain, add_report
from xaijax.commands.sweep import add_command
from xaijax.core.command_line import command_of, option, whole
from xaijax.core.compilation_cache import SETTING, SETTINGS, enable_compilation_cache
from xaijax.core.errors import InputError, SweepIncompleteError, XaiError
from xaijax.core.version import __version__
from xaijax.federated.command_line.commands import add_commands
from xaijax.methods.record import STOPPED


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with the arguments `argv` (None: those of the process) and returns the exit
    status.

    0: done. 1: an error of the library, reported in one line on stderr. 2: a sweep with missing
        parts. 130: interrupted by Ctrl-C. Arguments that cannot be parsed end the process with
        status 2, as argparse does.
    """
    parser = _parser()
    arguments = parser.parse_args(_expanded(parser, sys.argv[1:] if argv is None else argv))
    if arguments.command is None:
        parser.print_help()
        return 0
    if not arguments.no_compilation_cache:
        _keep_programs()
    try:
        arguments.run(arguments)
    except (XaiError, ImportError, OSError) as error:  # ImportError: names the missing extra
        print(f"xaijax: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2 if isinstance(error, SweepIncompleteError) else 1
    except SystemExit as ended:  # raised by a model or a file of the user's own, never by a command
        message = f"code that the command ran called sys.exit({ended.code!r})"
        print(f"xaijax: error: {message}. A model must return to its caller.", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stopped:
        notes = [note for note in getattr(stopped, "__notes__", ()) if note.startswith(STOPPED)]
        print(notes[0] if notes else STOPPED.rstrip(":"), file=sys.stderr)
        return 130
    return 0


def _keep_programs() -> None:
    """Keeps compiled programs for the next run, and for the workers of a sweep, in the user's cache
    folder if JAX has none yet. It says so in one line if that folder is refused.
    """
    if jax.config.values.get(SETTING) is not None:
        return
    try:
        folder = enable_compilation_cache()
    except InputError as error:
        print(f"xaijax: compiled programs are not kept. {error}", file=sys.stderr)
        return
    for name, value in ({SETTING: folder} | SETTINGS).items():
        os.environ.setdefault(name.upper(), str(value))


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (usage: {self.prog} --help)\n")


def _expanded(
    parser: argparse.ArgumentParser, texts: Sequence[str], inside: tuple[str, ...] = ()
) -> list[str]:
    """Returns the texts, with the options in FILE in place of @FILE.

    It ends the process with status 2, as argparse does, for a file that cannot be read.
    """
    expanded: list[str] = []
    for text in texts:
        if not text.startswith("@"):
            expanded.append(text)
            continue
        path = os.path.realpath(text[1:])
        if path in inside:
            parser.error(f"{text} includes itself")
        try:
            lines = Path(path).read_text("utf-8-sig").splitlines()
        except UnicodeDecodeError:
            parser.error(f"{text} is no text in UTF-8")
        except (OSError, ValueError) as error:  # ValueError: not a file name
            parser.error(f"{text} cannot be read: {error}")
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith("#"):
                continue
            try:
                options = shlex.split(line)
            except ValueError as error:  # an open quote
                parser.error(f"{text}, line {number}: {error}: {line.strip()!r}")
            expanded += _expanded(parser, options, (*inside, path))
    return expanded


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="xaijax",
        description="Explain machine-learning models in large batches.",
        epilog="@FILE stands for the options in a file, as they are typed. `xaijax COMMAND --help` "
        "ends with an example.",
    )
    version = f"xaijax {__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", title="commands")
    about = "train a small network on census data and explain 1,000 rows exactly"
    command = command_of(commands, "demo", about, "    xaijax demo --rows 200 --out demo/", _demo)
    option(command, "--out DIR", "folder to write (default: %(default)s)", default="xaijax-demo")
    about = "test rows to explain (default: %(default)s)"
    option(command, "--rows N", about, whole(1), default=1000)
    about = "of the training and of the rows drawn (default: %(default)s)"
    option(command, "--seed S", about, whole(0), default=0)
    for add in (add_explain, add_anchors, add_aec, add_report):
        add(commands)
    add_command(commands)
    add_commands(commands)
    add_doctor(commands)
    return parser


def _demo(arguments: argparse.Namespace) -> None:
    demo.run(arguments.out, rows=arguments.rows, seed=arguments.seed)
