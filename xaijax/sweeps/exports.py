"""A run as one Parquet file or one zarr group, written part by part.

Letters: N rows, P players, K outputs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.files import owner_only
from xaijax.core.optional import require
from xaijax.core.pickling import made_of
from xaijax.methods.anchors.explainer import AnchorExplainer
from xaijax.methods.derivatives.gradients.explainer import GradientExplainer
from xaijax.methods.explainer.explainer import Explainer
from xaijax.results.describe_question import output_of_each
from xaijax.results.explanation import Explanation
from xaijax.results.files.npz import as_path, file_to_write
from xaijax.results.rules import Rules

if TYPE_CHECKING:
    from xaijax.sweeps.run import Run

MARK = "xaijax.Run"  # the format entry of tables written here
OF_ZARR = ("zarr.json", ".zgroup", ".zattrs", ".zmetadata")  # files of a group, besides its arrays
ARRAYS = ("values", "base_values", "std_errors", "outputs")
RULE_COLUMNS = ("prediction", "precision", "precision_lower", "coverage", "accepted", "samples")


def to_parquet(run: Run, path: Any) -> Path:
    """See `Run.to_parquet`."""
    arrow: Any = require("pyarrow", "xaijax[scale]")
    parquet: Any = require("pyarrow.parquet", "xaijax[scale]")
    target = as_path(path)
    refuse_other_file(target)
    temporary = _beside(target)
    writer, sampled, labels = None, _sampled(run), run.labels
    try:
        for first, result in run.read():
            columns = columns_of(result, first, sampled, labels)
            if writer is None:
                open(temporary, "xb", opener=owner_only).close()
                metadata = {b"xaijax": json.dumps(told_of(run, result)).encode()}
                schema = arrow.table(columns).schema.with_metadata(metadata)
                writer = parquet.ParquetWriter(temporary, schema)
            writer.write_table(arrow.table(columns, writer.schema))
        if writer is not None:
            writer.close()
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def to_zarr(run: Run, path: Any) -> Path:
    """See `Run.to_zarr`."""
    zarr: Any = require("zarr", "xaijax[scale]")
    target = as_path(path)
    refuse_other_folder(target)
    making = _beside(target)
    sampled, group, arrays, facts = _sampled(run), None, {}, None
    try:
        for first, result in run.read():
            assert isinstance(result, Explanation)
            fields = {"values": result.values, "base_values": result.base_values}
            if sampled:
                fields["std_errors"] = errors_of(result)
            if "outputs" in result.stats:
                fields["outputs"] = result.stats["outputs"]
            if group is None:
                facts = told_of(run, result)
                group = zarr.open_group(str(making), mode="w", attributes=facts)
                making.chmod(0o700)
                for name, field in fields.items():
                    arrays[name] = group.create_array(
                        name,
                        shape=(run.rows, *field.shape[1:]),
                        chunks=(run.rows_per_part, *field.shape[1:]),
                        dtype=str(field.dtype),
                    )
            for name, field in fields.items():
                arrays[name][first : first + len(field)] = field
        for path in making.rglob("*"):  # copies of the group copy the modes
            path.chmod(0o700 if path.is_dir() else 0o600)
        refuse_other_folder(target)  # again: the parts may have taken hours
        old = _beside(target)
        with contextlib.suppress(FileNotFoundError):
            os.replace(target, old)
        try:
            os.replace(making, target)
        except OSError:
            if facts is None or _told(target) != facts:  # else a driver of this run was faster
                if old.exists():
                    os.replace(old, target)
                raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return target


def refuse_other_file(target: Path) -> None:
    """Raises InputError for a name that a Parquet file of a run may not have.

    Only an empty file, or one that this library wrote, is replaced: any other may be the only copy.
    """
    file_to_write(target)
    if target.exists() and target.stat().st_size and not _is_own_file(target):
        raise InputError(
            f"path: {target} exists and is no Parquet file of a run, so it is not replaced. Give "
            "another name, or remove it first."
        )


def refuse_other_folder(target: Path) -> None:
    """Raises InputError for a name that a zarr group of a run may not have.

    Only an empty folder, or a group that this library wrote with nothing else in it, is replaced.
    """
    if not target.absolute().parent.is_dir():
        raise InputError(f"path: the folder {target.parent} does not exist; make it first.")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        what = "a link" if target.is_symlink() else "a file"
        raise InputError(f"path: {target} is {what}; give the name of a new directory.")
    there = sorted(entry.name for entry in target.iterdir()) if target.is_dir() else []
    others = [name for name in there if name not in (*OF_ZARR, *ARRAYS)]
    if there and (others or (_told(target) or {}).get("format") != MARK):
        first = (others or there)[0]
        raise InputError(
            f"path: {target} holds other files ({first!r}) than a zarr group of a run; it is not "
            "replaced. Give a new directory, or an empty one."
        )


def _beside(target: Path) -> Path:
    """A new name in the same folder; for . or .. the name is taken from the absolute path."""
    whole = Path(os.path.abspath(target))
    return whole.with_name(f".{whole.name}.{uuid.uuid4().hex}.tmp")


def _is_own_file(path: Path) -> bool:
    parquet: Any = require("pyarrow.parquet", "xaijax[scale]")
    try:
        metadata = parquet.read_metadata(path).metadata or {}
        return json.loads(metadata[b"xaijax"])["format"] == MARK
    except (OSError, ValueError, KeyError, TypeError):  # no Parquet file, or not one of ours
        return False


def _told(folder: Path) -> dict[str, Any] | None:
    """The attributes of a zarr group; None if there is none."""
    for name, key in (("zarr.json", "attributes"), (".zattrs", None)):  # of format 3 and 2
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            attributes = json.loads((folder / name).read_bytes())
            return dict(attributes if key is None else attributes[key])
    return None


def refuse_format(format: str, out: Any, explainer: object, options: Mapping[str, Any]) -> None:
    """Raises, before any work, the errors that `format` would raise when all parts are done.

    Only names that were given to the model are known this early. It raises ImportError without the
    library, and InputError for rules in zarr, for columns with the same name, and for a file in the
    directory `out` that is not the run's.
    """
    if format == "npz":
        return
    folder = as_path(out)
    if format == "zarr":
        if isinstance(explainer, AnchorExplainer):
            raise InputError("format: an AnchorExplainer gives rules. Say format='parquet'.")
        require("zarr", "xaijax[scale]")
        if folder.is_dir():
            refuse_other_folder(folder / "explanation.zarr")
        return
    require("pyarrow.parquet", "xaijax[scale]")
    if folder.is_dir():
        refuse_other_file(folder / "explanation.parquet")
    explainer = getattr(explainer, "_teacher", explainer)
    outputs = getattr(made_of(explainer).get("model"), "output_names", None) or ()
    if (
        isinstance(explainer, Explainer | GradientExplainer)
        and len(outputs) > 1
        and options.get("outputs") is None
    ):
        names = getattr(getattr(explainer, "players", None), "names", None) or ()
        counted = Counter(f"phi_{name}_{output}" for name in names for output in outputs)
        twice = next((label for label, times in counted.items() if times > 1), None)
        if twice is not None:
            raise InputError(f"format: {_twice(twice)}")


def _twice(label: str) -> str:
    return (
        f"two columns of the table would be called {label!r}. Give the players or the outputs "
        "other names (as_model: feature_names=, output_names=), or write no table."
    )


def told_of(run: Run, result: Explanation | Rules) -> dict[str, Any]:
    """The metadata of a table: the question, names, and the meaning of values."""
    facts: dict[str, Any] = {"format": MARK, "question": run.manifest["question"]}
    facts["run"] = run.manifest.get("id")
    facts["feature_names"] = list(result.feature_names)
    if isinstance(result, Explanation):
        facts |= {"output_names": result.output_names, "kind": result.kind}
    return json.loads(json.dumps(facts, default=str))


def columns_of(
    result: Explanation | Rules, first: int, errors: bool, labels: Any = None
) -> dict[str, Any]:
    """The columns of a part; first: the position of its first row. errors: with standard errors.
    labels: the index of all rows, of pandas, or None.
    """
    columns: dict[str, Any] = {"row": np.arange(first, first + len(result))}
    if labels is not None:
        index = labels[first : first + len(result)]
        for n in range(index.nlevels):
            level = index.names[n] if index.names[n] is not None else n
            name = "instance" if index.nlevels == 1 else f"instance_{level}"
            columns[name] = _arrow_of(index.get_level_values(n))
    if isinstance(result, Rules):
        columns["rule"] = [" AND ".join(rule.rule) or "TRUE" for rule in result.rules]
        rules = [rule.as_dict() for rule in result.rules]
        for name in RULE_COLUMNS:
            columns[name] = [rule[name] for rule in rules]
        columns["prediction"] = [str(label) for label in columns["prediction"]]
        columns["precision_lower"] = np.array(columns["precision_lower"], np.float64)
        columns["coverage"] = np.array(columns["coverage"], np.float64)
        return columns
    named = [("phi", result.values)]
    if errors:
        named.append(("se", errors_of(result)))
    suffixes = [""] if result.output_names is None else [f"_{name}" for name in result.output_names]
    base = result.base_values.reshape(len(result), -1)
    if index := output_of_each(result.stats, len(result)):
        columns["output"] = list(index)
    columns |= {f"base_value{suffix}": base[:, k] for k, suffix in enumerate(suffixes)}
    for word, array in named:
        array = array.reshape(*array.shape[:2], -1)
        for j, name in enumerate(result.feature_names):
            for k, suffix in enumerate(suffixes):
                label = f"{word}_{name}{suffix}"
                if label in columns:
                    raise InputError(_twice(label))
                columns[label] = np.ascontiguousarray(array[:, j, k])
    return columns


def _arrow_of(labels: Any) -> Any:
    """Labels as a column; labels of several types, for which Arrow has no type, as texts."""
    arrow: Any = require("pyarrow", "xaijax[scale]")
    try:
        return arrow.Array.from_pandas(labels)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError, arrow.ArrowNotImplementedError):
        return arrow.array([str(label) for label in labels])


def errors_of(explanation: Explanation) -> np.ndarray:
    """Standard errors; 0 for exact values, NaN if none is known."""
    if explanation.std_errors is None:
        return np.full(explanation.shape, 0.0 if explanation.exact else np.nan)
    return explanation.std_errors


def _sampled(run: Run) -> bool:
    return any(isinstance(p, Explanation) and p.std_errors is not None for _, p in run.read())
