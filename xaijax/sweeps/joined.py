"""Parts joined into one result; no more is held than one part and the result, or with files less.

Letters: N rows.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.files import owner_only
from xaijax.results.explanation import Explanation
from xaijax.results.freeze import per_instance
from xaijax.results.merge import SUMMED, merge
from xaijax.results.player_data import concatenate
from xaijax.results.rules import Rules
from xaijax.sweeps.task import PART
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from xaijax.sweeps.run import Run

AT_ONCE = 1 << 16  # rows that are copied together
FOLDER = "joined"  # of the run directory: arrays that a lazy explanation maps
ARRAYS = ("values", "base_values", "std_errors", "present", "bounds", "data")
COUNTED = ("naive_rows", "checked_rows")  # in the stats: one number, which grows with the rows
Made = Callable[[str, tuple[int, ...], Any], np.ndarray]  # (name, shape, dtype) -> an empty array


def joined(parts: Run, lazy: bool, folder: Path, place: np.ndarray | None) -> Explanation:
    """One explanation of all parts; lazy: its arrays are memory maps of files in `folder`.

    place: int64 [N], which of the rows of the parts each row is; None: they are the rows.
    """
    whole = _whole(parts, int(sum(parts.sizes)) if place is None else len(place))
    if not lazy:
        return _filled(parts, whole, place, lambda _, shape, dtype: np.empty(shape, dtype))
    target = folder / FOLDER
    if not target.is_dir():
        making = folder / f".{FOLDER}-{uuid.uuid4().hex}"
        making.mkdir(mode=0o700)
        try:
            _filled(parts, whole, place, lambda name, *how: _mapped(making / f"{name}.npy", *how))
            if target.is_dir():
                shutil.rmtree(making)  # another reader was faster
            else:
                try:
                    os.replace(making, target)
                except OSError:
                    if not target.is_dir():  # else another reader was faster by a moment
                        raise
                    shutil.rmtree(making)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    there: Made = lambda name, *_: np.load(target / f"{name}.npy", "r")  # noqa: E731
    return _filled(parts, whole, place, there, False)


def forget(folder: Path) -> None:
    """Remove the files of lazy explanations: a part is about to change."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def joined_rules(parts: Sequence[Rules], place: np.ndarray | None) -> Rules:
    """The rules of all parts, in order; counts are added up. place: as of `joined`."""
    stats = dict(parts[0].stats)
    stats.pop(PART, None)
    for name in (*SUMMED, "rounds", "widened"):
        if name in stats:
            stats[name] = sum(part.stats[name] for part in parts)
    rules = tuple(rule for part in parts for rule in part.rules)
    if place is not None:
        rules = tuple(rules[n] for n in place.tolist())
    return dataclasses.replace(parts[0], rules=rules, stats=stats)


def _mapped(path: Path, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    open(path, "xb", opener=owner_only).close()
    return np.lib.format.open_memmap(path, "w+", dtype, shape)


def _whole(parts: Run, N: int) -> Explanation:
    """`merge` of one row of each part: what all of it says beside its arrays, and its checks."""
    rows, added = [], dict.fromkeys(COUNTED, 0)
    for number in range(len(parts.sizes)):
        part = without_part(parts.explanation_of(number))
        added = {name: one + part.stats.get(name, 0) for name, one in added.items()}
        one = part[:1]  # whose arrays are views that would keep the part
        arrays = {
            name: np.array(getattr(one, name))
            for name in ARRAYS
            if isinstance(getattr(one, name), np.ndarray)
        }
        stats = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in one.stats.items()}
        rows.append(dataclasses.replace(one, stats=stats, **arrays))
    whole = merge(rows)
    provenance, stats = dict(whole.provenance), dict(whole.stats)
    if "instances" in provenance:
        provenance["instances"] = N
    if added["naive_rows"] < math.inf:  # as many for each row, also for those that are not asked
        added["naive_rows"] = added["naive_rows"] * N // int(sum(parts.sizes))
    stats |= {name: one for name, one in added.items() if name in stats}
    return dataclasses.replace(whole, provenance=provenance, stats=stats)


def without_part(found: Explanation) -> Explanation:
    """The explanation of a part without what is of the part alone."""
    stats = {name: value for name, value in found.stats.items() if name != PART}
    return dataclasses.replace(found, stats=stats)


def _filled(
    parts: Run, whole: Explanation, place: np.ndarray | None, made: Made, fill: bool = True
) -> Explanation:
    """`whole` with the arrays of all parts; fill: read from the parts, else there already."""
    N = int(sum(parts.sizes)) if place is None else len(place)
    fields = {name: getattr(whole, name) for name in ARRAYS}
    of_rows = {name: one for name, one in fields.items() if isinstance(one, np.ndarray)}
    stats = [k for k, one in whole.stats.items() if per_instance(one, len(parts.sizes))]
    of_rows |= {f"stats.{name}": whole.stats[name] for name in stats}
    out = {k: made(k, (N, *one.shape[1:]), one.dtype) for k, one in of_rows.items()}
    if fill and place is None:
        _fill(parts, of_rows, out)
    elif fill:
        _spread(parts, of_rows, out, np.asarray(place), made)
    values = {name: out.get(name, fields[name]) for name in ARRAYS}
    if whole.data is not None and "data" not in of_rows:  # frames
        every = (parts.explanation_of(number).data for number in range(len(parts.sizes)))
        rows = concatenate(list(every))
        values["data"] = rows if place is None else rows_of(rows).take(place, counted=True)
    told = {**whole.stats, **{name: out[f"stats.{name}"] for name in stats}}
    return dataclasses.replace(whole, stats=told, **values)


def _fill(parts: Run, of_rows: dict[str, np.ndarray], out: dict[str, np.ndarray]) -> None:
    """Write the rows of all parts one under the other; of_rows: an entry for each part."""
    start = 0
    for number, size in enumerate(parts.sizes):
        part = parts.explanation_of(number)
        for name, array in out.items():
            field, _, stat = name.partition(".")
            own = part.stats.get(stat) if stat else getattr(part, field)
            # What a part does not say is the same for all of its rows, as `merge` has it.
            array[start : start + size] = of_rows[name][number] if own is None else own
        start += size
    for array in out.values():
        if isinstance(array, np.memmap):
            array.flush()


def _spread(
    parts: Run,
    of_rows: dict[str, np.ndarray],
    out: dict[str, np.ndarray],
    place: np.ndarray,
    made: Made,
) -> None:
    """The same, where rows of the parts stand for several rows: one array after the other.

    made: for the rows of the parts, which are held once more beside them.
    """
    D = int(sum(parts.sizes))
    for name, array in out.items():
        distinct = {name: made(f"{name}.distinct", (D, *array.shape[1:]), array.dtype)}
        _fill(parts, {name: of_rows[name]}, distinct)
        for start in range(0, len(place), AT_ONCE):
            array[start : start + AT_ONCE] = distinct[name][place[start : start + AT_ONCE]]
        if isinstance(array, np.memmap):
            array.flush()
            path: Any = getattr(distinct.pop(name), "filename", None)  # unmapped before it goes
            os.unlink(path)
