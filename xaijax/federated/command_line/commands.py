"""The commands `xaijax guest`, `xaijax host` and `xaijax arbiter`.

Letters: N rows, F columns.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import os
import secrets
import signal
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.command_line import command_of, option
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.federated.arbiter import Arbiter
from xaijax.federated.guest.arguments import SECRET
from xaijax.federated.guest.audit import verify_audit
from xaijax.federated.guest.guest import Guest
from xaijax.federated.guest.policy import Policy
from xaijax.federated.host.host import Host
from xaijax.federated.split.model import SplitModel, load_split
from xaijax.federated.split.parts import columns_by_name, load_part
from xaijax.federated.wire.grpc_transport import Connection, serve
from xaijax.federated.wire.tls import Tls
from xaijax.models import as_model
from xaijax.results.files.npz import file_to_write

GUEST = "address rows identifier parts reference secret state aligned party".split()
HOST = ("model", "arbiter", "background", "identifier", "identifiers", "guests", "answers")
ARBITER = ("address", "model", "columns", "guests", "hosts", "tls")

Run = Callable[[argparse.Namespace], None]


def add_commands(commands: Any) -> None:
    """Puts the three commands under `xaijax`; each sets `run`, which takes the parsed arguments."""
    about = "answer as a guest, with one's own rows and part of a model"
    guest = command_of(commands, "guest", about, "    xaijax guest serve --config guest.toml")
    actions = guest.add_subparsers(dest="action", required=True, title="actions")
    _config(actions, "serve", "listen for hosts until interrupted", serve_guest)
    _config(actions, "audit", "check the log's chain; print its length and head", check_audit)
    secret = actions.add_parser("secret", help="make the long-term secret of a guest, once")
    option(secret, "file FILE", None)
    secret.set_defaults(run=make_secret)

    about = "explain as a host, with guests in other processes"
    example = "    xaijax host explain --config host.toml --rows people.csv --out explanation.npz"
    host = command_of(commands, "host", about, example)
    actions = host.add_subparsers(dest="action", required=True, title="actions")
    explain = _config(actions, "explain", "explain rows and write the values", explain_rows)
    option(explain, "--rows CSV", "the host's columns", required=True)
    option(explain, "--out NPZ", "the explanation", required=True)

    about = "find the common identifiers by private set intersection, and write them"
    align = _config(actions, "align", about, align_lists)
    option(align, "--out FILE", "one identifier a line", required=True)

    about = "run a joint model for parties that trust this process"
    arbiter = command_of(
        commands, "arbiter", about, "    xaijax arbiter serve --config arbiter.toml"
    )
    actions = arbiter.add_subparsers(dest="action", required=True, title="actions")
    _config(actions, "serve", "listen for hosts until interrupted", serve_arbiter)


def serve_guest(arguments: argparse.Namespace) -> None:
    """`xaijax guest serve`: prints the address, and listens."""
    settings = read_settings(arguments.config, (*GUEST, "policy", "tls"))
    tls = settings.tls()
    guest = guest_of(settings)
    try:
        _listen(guest, settings.needed("address"), tls)
    finally:
        guest.close()


def check_audit(arguments: argparse.Namespace) -> None:
    """`xaijax guest audit`."""
    settings = read_settings(arguments.config, (*GUEST, "policy", "tls"))
    secret = read_secret(settings.file("secret"))
    path = settings.file("state") / "audit.jsonl"
    if not path.exists():
        raise InputError(f"state: there is no log at {path}; the guest has not been served yet.")
    count, head = verify_audit(path, secret)
    print(f"{count} entries, head {head}")


def make_secret(arguments: argparse.Namespace) -> None:
    """`xaijax guest secret`: a new file that only its owner can read; never overwritten."""
    path = Path(arguments.file)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"secret: {path} cannot be made ({error.strerror}).") from None
    with os.fdopen(file, "wb") as stream:
        stream.write(secrets.token_bytes(SECRET))


def explain_rows(arguments: argparse.Namespace) -> None:
    """`xaijax host explain`."""
    settings = read_settings(arguments.config, (*HOST, *HOST_OPTIONS, "tls"))
    file_to_write(arguments.out, "out")  # before guests count queries
    host = host_of(settings)
    identifiers, rows = host_rows(settings, Path(arguments.rows))
    explanation = host(rows, identifiers)
    explanation.save(arguments.out)
    stats = explanation.stats
    print(
        f"{len(rows):,} rows explained; guests were asked for {stats['rows_asked']:,} rows in "
        f"{stats['messages']:,} messages; written to {arguments.out}"
    )


def align_lists(arguments: argparse.Namespace) -> None:
    """`xaijax host align`: guests then use this list for this host, until they restart."""
    settings = read_settings(arguments.config, (*HOST, *HOST_OPTIONS, "tls"))
    file_to_write(arguments.out, "out")
    common = host_of(settings).align()
    if any(b"\n" in identifier or b"\r" in identifier for identifier in common):
        raise InputError("identifiers: some hold a line end, which the list cannot. Rename them.")
    file = os.open(arguments.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(b"".join(identifier + b"\n" for identifier in common))
    print(f"{len(common):,} identifiers are common; written to {arguments.out}")


def serve_arbiter(arguments: argparse.Namespace) -> None:
    """`xaijax arbiter serve`."""
    settings = read_settings(arguments.config, ARBITER)
    arbiter = arbiter_of(settings)
    try:
        _listen(arbiter, settings.needed("address"), settings.tls())
    finally:
        arbiter.close()


def _listen(party: Any, address: str, tls: Any) -> None:
    server = serve(party, address, tls)
    print(f"listening at {server.address}", flush=True)

    def stop(number: int, frame: Any) -> None:
        del number, frame
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        server.wait()
    except KeyboardInterrupt:
        server.stop()


def _config(actions: Any, name: str, about: str, run: Run) -> Any:
    command = actions.add_parser(name, help=about, description=f"{about.capitalize()}.")
    option(command, "--config TOML", "see docs/federated.md", required=True)
    command.set_defaults(run=run)
    return command


# Paths in a file are relative to its folder. Letters: N rows, F columns.

HOST_OPTIONS = (
    "reference", "index", "estimator", "end_weight", "version", "batch", "deadline", "budget",
    "link", "seed", "batch_size", "max_memory", "tolerance", "tile", "path",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class SettingsFile:
    """A settings file: its entries and its path."""

    path: Path
    entries: Mapping[str, Any]

    def needed(self, name: str) -> Any:
        """An entry that must be there."""
        if name not in self.entries:
            raise InputError(f"{self.path}: {name} is missing.")
        return self.entries[name]

    def file(self, name: str) -> Path:
        """An entry that names a file."""
        return self._beside(self.needed(name), name)

    def tls(self) -> Tls:
        """The section [tls]."""
        section = self.needed("tls")
        names = [field.name for field in dataclasses.fields(Tls)]
        refuse_unknown(self.path, section, names, "tls.", needed=names)
        return Tls(**{name: self._beside(section[name], f"tls.{name}") for name in names})

    def _beside(self, name: Any, entry: str) -> Path:
        if not isinstance(name, str):
            raise InputError(f"{self.path}: {entry} must be a file's name, got {name!r}.")
        return self.path.parent / name


def read_settings(path: str | Path, accepted: Sequence[str]) -> SettingsFile:
    """Reads a TOML file. Raises InputError for a file that is not TOML, and for unknown entries."""
    place = Path(path)
    try:
        entries = tomllib.loads(place.read_text("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InputError(f"config: {place} cannot be read: {error}.") from None
    refuse_unknown(place, entries, accepted, "")
    return SettingsFile(place, entries)


def refuse_unknown(
    path: Path, section: Any, accepted: Sequence[str], prefix: str, needed: Sequence[str] = ()
) -> None:
    """Raises InputError for entries that are not known, or missing."""
    if not isinstance(section, Mapping):
        raise InputError(f"{path}: {prefix.rstrip('.')} must be a section, got {section!r}.")
    for name in section:
        if name not in accepted:
            raise InputError(
                f"{path}: {prefix}{name} is not known; accepted: {', '.join(accepted)}."
            )
    for name in needed:
        if name not in section:
            raise InputError(f"{path}: {prefix}{name} is missing.")


def read_table(path: Path, identifier: str) -> tuple[list[str], list[str], np.ndarray]:
    """A CSV file with a header: identifiers [N] (texts), names [F] of the others, rows [N, F].

    Raises InputError for a file that is not CSV or lacks that column, and for entries that are not
    numbers; the text names the line and the column, and not the entry.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *lines = csv.reader(file)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"rows: {path} cannot be read as CSV ({type(error).__name__}).") from None
    if identifier not in header:
        raise InputError(f"rows: {path} has no column {identifier!r}, which identifier names.")
    key = header.index(identifier)
    names = [name for name in header if name != identifier]
    rows = np.empty((len(lines), len(names)))
    for number, line in enumerate(lines):
        if len(line) != len(header):
            raise InputError(
                f"rows: {path}, line {number + 2}: {len(line)} entries, not {len(names) + 1}."
            )
        values = [entry for place, entry in enumerate(line) if place != key]
        for column, value in enumerate(values):
            try:
                rows[number, column] = float(value)
            except ValueError:
                raise InputError(
                    f"rows: {path}, line {number + 2}: the entry of {names[column]!r} is no "
                    "number. Encode categories."
                ) from None
    return [line[key] for line in lines], names, rows


def read_lines(path: Path, name: str) -> list[str]:
    """Identifiers, one a line.

    Lines end as in text files; an identifier may contain other line separators of Unicode. A
    byte-order mark is ignored.
    """
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # \r\n and \r are read as \n
        return lines[:-1] if lines[-1] == "" else lines
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: {path} cannot be read ({type(error).__name__}).") from None


def guest_of(settings: SettingsFile) -> Guest:
    """The guest of a guest.toml."""
    identifiers, columns, rows = read_table(settings.file("rows"), settings.needed("identifier"))
    parts = settings.entries.get("parts")
    if isinstance(parts, Mapping):
        parts = {name: load_part(settings.path.parent / str(file)) for name, file in parts.items()}
    policy = settings.entries.get("policy", {})
    names = [field.name for field in dataclasses.fields(Policy)]
    refuse_unknown(settings.path, policy, names, "policy.")
    aligned = None
    if "aligned" in settings.entries:
        aligned = read_lines(settings.file("aligned"), "aligned")
    return Guest(
        rows,
        identifiers,
        parts,
        reference=settings.entries.get("reference", "median"),
        policy=Policy(**policy),
        secret=read_secret(settings.file("secret")),
        state=settings.file("state"),
        aligned=aligned,
        party=settings.entries.get("party"),
        feature_names=columns,
    )


def read_secret(path: Path) -> bytes:
    """The long-term secret that `xaijax guest secret` wrote."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"secret: {path} cannot be read ({error.strerror}). Run `xaijax guest secret FILE`."
        ) from None


def host_of(settings: SettingsFile) -> Host:
    """The host of a host.toml."""
    tls = settings.tls()
    _, names, background = read_table(settings.file("background"), settings.needed("identifier"))
    guests = settings.needed("guests")
    if not isinstance(guests, Mapping):
        raise InputError(f'{settings.path}: guests must be a section, name = "host:port".')
    entries = settings.entries
    options = {name: entries[name] for name in HOST_OPTIONS if name in entries}
    if "answers" in entries:
        options["answers"] = settings.file("answers")
    arbiter, model = None, None
    if "arbiter" in entries:
        arbiter = Connection(entries["arbiter"], tls)
    else:
        model = _named(load_split(settings.file("model")), names)
        background = background[:, _order(model, names, "background")]
    return Host(
        model,
        background,
        {name: Connection(address, tls) for name, address in guests.items()},
        read_lines(settings.file("identifiers"), "identifiers"),
        arbiter=arbiter,
        **options,
    )


def host_rows(settings: SettingsFile, path: Path) -> tuple[list[str], np.ndarray]:
    """Rows to explain: identifiers [N], and the host's columns [N, H] in the order of the model.

    If the model has no names, these are the columns of the background in its order. Raises
    InputError for other columns, and without names for the same ones in another order.
    """
    identifier = settings.needed("identifier")
    identifiers, names, rows = read_table(path, identifier)
    if "arbiter" not in settings.entries:
        model = load_split(settings.file("model"))
        if model.feature_names is not None:
            return identifiers, rows[:, _order(model, names, "rows")]
    _, known, _ = read_table(settings.file("background"), identifier)
    if names != known:
        raise InputError(f"rows: {path} has the columns {names}, not {known} in the same order.")
    return identifiers, rows


def _order(model: SplitModel, names: Sequence[str], name: str) -> list[int]:
    """Returns the positions of the model's columns [H] among the names of a table."""
    assert model.feature_names is not None
    return columns_by_name(names, model.feature_names, name, "the model's host side")


def _named(model: SplitModel, names: Sequence[str]) -> SplitModel:
    """The split model with its names, or, if it has none, with those of the background."""
    if model.feature_names is not None:
        return model
    if len(names) != model.columns:
        raise InputError(
            f"background has {len(names)} columns besides the identifier, the model takes "
            f"{model.columns}."
        )
    return dataclasses.replace(model, feature_names=names)


def arbiter_of(settings: SettingsFile) -> Arbiter:
    """The arbiter of an arbiter.toml; its model is "module:name", code that this process runs."""
    tls = settings.tls()
    module, _, name = str(settings.needed("model")).partition(":")
    model = getattr(require(module, module), name or "model", None)
    if model is None:
        raise InputError(f"{settings.path}: model: {module} has no {name or 'model'}.")
    guests, names = settings.needed("guests"), ("columns", "address")
    if not isinstance(guests, Mapping):
        raise InputError(f"{settings.path}: guests must be sections, [guests.NAME].")
    for guest, section in guests.items():
        refuse_unknown(settings.path, section, names, f"guests.{guest}.", needed=names)
    return Arbiter(
        as_model(model),
        settings.needed("columns"),
        {guest: section["columns"] for guest, section in guests.items()},
        {guest: Connection(section["address"], tls) for guest, section in guests.items()},
        hosts=settings.entries.get("hosts", ()),
    )
