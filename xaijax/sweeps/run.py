"""`Run`: a run directory for the user, finished or not.

Letters: N rows.
"""

from __future__ import annotations

import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.checks import whole_number, yes_or_no
from xaijax.core.errors import InputError, SweepIncompleteError
from xaijax.core.files import owner_only
from xaijax.core.public import public, public_class
from xaijax.results.explanation import Explanation
from xaijax.results.files.npz import as_path
from xaijax.results.merge import SUMMED, merge
from xaijax.results.rules import Rules
from xaijax.results.shared_fields import concatenate, per_instance
from xaijax.sweeps import exports
from xaijax.sweeps.directory import RunDirectory, cut_of
from xaijax.sweeps.inputs import DistinctRows
from xaijax.sweeps.task import PART
from xaijax.tables.rows import rows_of

CHECKED = 1 << 16  # number of parts whose check is remembered


@public_class
class Run:
    """Gives access to a sweep's directory: which parts are there, and their joined content.

    It is made by `xaijax.sweep` and `xaijax.open_run`. It reads the directory again if the files
    have changed, and calls no model.

    Args:
        path: the directory.

    Attributes:
        path: `pathlib.Path` of the directory.
        rows, rows_per_part, parts: ints. N, rows of the largest part, and the number of parts. The
            parts hold repeated rows only once.
        manifest: dict. The question: method, arguments, model, rows and versions.

    Raises:
        FileNotFoundError: there is no such directory, or no run in it.
        InputError: this version cannot read the run.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
        >>> X = np.array([[2.0, 3.0], [1.0, 4.0], [5.0, 2.0]])
        >>> out = tempfile.mkdtemp()
        >>> run = xj.sweep(explainer, X, out, rows_per_part=2)
        >>> run.parts, run.missing, run.failed
        (2, (), {})
        >>> run.explanation().values.round(3)
        array([[3., 3.],
               [2., 2.],
               [5., 5.]])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = as_path(path, "out")
        self._directory = RunDirectory(self.path)
        manifest = self._directory.manifest
        if manifest is None:
            raise FileNotFoundError(f"{self.path} holds no run of xaijax.sweep: no manifest.json.")
        self.manifest: dict[str, Any] = manifest
        self.rows: int = manifest["rows"]
        self._cut = cut_of(manifest)
        self.rows_per_part: int = self._cut.largest
        self.parts: int = self._cut.parts
        self._distinct: int = manifest["distinct"]  # rows that the parts explain
        self._valid: dict[int, tuple[int, int]] = {}  # part -> (size, time) of the file checked

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of rows of each part, counted in distinct rows."""
        return tuple(last - first for first, last in self._cut.ranges)

    def range_of(self, part: int) -> tuple[int, int]:
        """(first, last + 1) of the rows of a part, counted in distinct rows."""
        self._refuse_part(part)
        return self._cut.ranges[part]

    @property
    def labels(self) -> Any:
        """The pandas Index [N] of the explained frame, if it is not 0..N-1; or None."""
        return self._directory.labels

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of the parts that have no valid file: not answered, failed or damaged."""
        return tuple(n for n in range(self.parts) if not self._is_valid(n))

    @property
    def failed(self) -> dict[int, str]:
        """The missing parts that a driver gave up, as {part: why}."""
        missing = set(self.missing)
        return {n: said for n, said in self._directory.failed.items() if n in missing}

    def explanation(self, lazy: bool = False) -> Explanation:
        """Returns one `Explanation` of all N rows.

        Args:
            lazy: True: its arrays are memory maps of files that are written next to the parts at
                the first call, so memory holds only one part. Rows that were frames are read into
                memory in any case.

        Returns:
            An `Explanation`, the same as `xaijax.merge` of its parts. stats["platform"] says where
            they were made. It is a list if they come from several platforms, whose last bits may
            differ.

        Raises:
            SweepIncompleteError: parts are missing. InputError: the parts hold rules.
        """
        yes_or_no(lazy, "lazy")
        self._refuse_incomplete()
        self._refuse_kind(Explanation)
        whole = joined(self, lazy, self.path, self._place)
        index = self.labels
        if index is None:
            return whole
        data = None if whole.data is None else rows_of(whole.data).labelled(index)
        return replace(whole, data=data, instance_index=index)

    def rules(self) -> Rules:
        """Returns the `Rules` of all N rows, for an `AnchorExplainer`.

        Raises:
            SweepIncompleteError: parts are missing. InputError: the parts hold no rules.
        """
        self._refuse_incomplete()
        self._refuse_kind(Rules)
        parts = [self._directory.read(n) for n in range(self.parts)]
        rules = joined_rules([part for part in parts if isinstance(part, Rules)], self._place)
        return replace(rules, instance_index=self.labels)

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Writes one Parquet file, with a row group for each part. It needs `xaijax[scale]`.

        The columns are row (its position in X), instance (its label, if the index of a frame is not
        0..N-1; for an index of several levels a column instance_<level> for each), base_value,
        phi_<name> and se_<name> (a standard error, if any part was sampled) for each player. With
        several outputs they are base_value_<output>, phi_<name>_<output> and so on. With `outputs=`
        there is also output, that of each instance. For rules the columns are row, instance, rule,
        prediction, precision, precision_lower, coverage, accepted, samples. The schema's metadata
        contain the question.

        Args:
            path: the file. Only a file of an earlier call is replaced.

        Returns:
            Its `Path`.

        Raises:
            SweepIncompleteError: parts are missing. InputError: two columns would have the same
                name; the file exists and no run wrote it; or its folder does not exist.
        """
        self._refuse_incomplete()
        return exports.to_parquet(self, path)

    def to_zarr(self, path: str | os.PathLike[str]) -> Path:
        """Writes a zarr group, with a chunk for each part. It needs `xaijax[scale]`.

        Its arrays are values [N, P] or [N, P, K], base_values and, if any part was sampled,
        std_errors; with `outputs=` also outputs [N], the model's columns. Its attributes contain
        the question and the names.

        Args:
            path: the directory of the group: a new or an empty one, or that of an earlier call,
                which is replaced.

        Returns:
            Its `Path`.

        Raises:
            SweepIncompleteError: parts are missing. InputError: the parts hold rules; the directory
                holds other files.
        """
        self._refuse_incomplete()
        self._refuse_kind(Explanation)
        return exports.to_zarr(self, path)

    def __repr__(self) -> str:
        left = len(self.missing)
        state = "complete" if not left else f"{left:,} missing, {len(self.failed):,} of them failed"
        return f"Run({str(self.path)!r}: {self.rows:,} rows in {self.parts:,} parts, {state})"

    def explanation_of(self, number: int) -> Explanation:
        """Returns the explanation of one part, as it was written; its stats say where and when."""
        self._refuse_part(number)
        part = self._directory.read(number)
        if not isinstance(part, Explanation):
            raise InputError(f"{self.path} holds rules: say run.rules().")
        stats = {**part.stats, "platform": part.stats.get(PART, {}).get("platform")}
        return without_part(replace(part, stats=stats))

    def read(self) -> Iterator[tuple[int, Explanation | Rules]]:
        """Iterates over (first row, result) of at most `rows_per_part` rows each, in order."""
        if self._place is None:
            for number in range(self.parts):
                yield self.range_of(number)[0], self._directory.read(number)
            return
        rules = isinstance(self._directory.read(0), Rules)
        whole = self.rules() if rules else self.explanation(lazy=True)
        for first in range(0, self.rows, self.rows_per_part):
            yield first, whole[first : first + self.rows_per_part]

    @property
    def _place(self) -> np.ndarray | None:
        """The row of the parts that each row equals; None: the same order."""
        return None if self._distinct == self.rows else DistinctRows.read(self.path).place

    def _is_valid(self, number: int) -> bool:
        try:
            there = os.stat(self._directory.part(number))
        except OSError:
            return False
        version = there.st_size, there.st_mtime_ns
        if self._valid.get(number) == version:
            return True
        first, last = self.range_of(number)
        if self._directory.wrong(number, first, last) is not None:
            return False
        if len(self._valid) < CHECKED:
            self._valid[number] = version
        return True

    def _refuse_incomplete(self) -> None:
        missing = self.missing
        if missing:
            failed = self.failed
            first = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
            why = f" {len(failed)} of them failed: {next(iter(failed.values()))}." if failed else ""
            raise SweepIncompleteError(
                f"{self.path} lacks {len(missing):,} of {self.parts:,} parts ({first}).{why} Call "
                "xaijax.sweep again, which answers what is missing."
            )

    def _refuse_part(self, number: Any) -> None:
        if whole_number(number, "part", least=0) >= self.parts:
            raise InputError(f"part {number}: {self.path} has {self.parts:,} parts, from 0.")

    def _refuse_kind(self, wanted: type) -> None:
        if not isinstance(self._directory.read(0), wanted):
            other = "rules: say run.rules()" if wanted is Explanation else "no rules"
            raise InputError(f"{self.path} holds {other}.")


@public
def open_run(out: str | os.PathLike[str]) -> Run:
    """Opens the directory of a sweep, finished or not; see `Run`.

    Args:
        out: the directory, as it was given to `xaijax.sweep`.

    Returns:
        A `Run`.

    Raises:
        FileNotFoundError: there is no run. InputError: the run is from a newer version, or damaged.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] + X[:, 1]), np.zeros((1, 2)))
        >>> out = tempfile.mkdtemp()
        >>> run = xj.sweep(explainer, np.ones((3, 2)), out)
        >>> xj.open_run(out).explanation().values.round(3)[0]
        array([1., 1.])
    """
    return Run(out)


AT_ONCE = 1 << 16  # rows that are copied together
FOLDER = "joined"  # folder in the run directory: arrays that a lazy explanation maps
ARRAYS = ("values", "base_values", "std_errors", "present", "bounds", "data")
COUNTED = ("naive_rows", "checked_rows")  # stats that are one number and grow with the rows
Made = Callable[[str, tuple[int, ...], Any], np.ndarray]  # (name, shape, dtype) -> an empty array


def joined(parts: Run, lazy: bool, folder: Path, place: np.ndarray | None) -> Explanation:
    """One explanation of all parts; lazy: its arrays are memory maps of files in `folder`.

    place: int64 [N], the row of the parts that each row equals; None: the same order.
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
            try:
                os.replace(making, target)
            except OSError:
                if not target.is_dir():  # otherwise another reader was faster
                    raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    there: Made = lambda name, *_: np.load(target / f"{name}.npy", "r")  # noqa: E731
    return _filled(parts, whole, place, there, False)


def forget(folder: Path) -> None:
    """Removes the files of lazy explanations, since a part is about to change."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def joined_rules(parts: Sequence[Rules], place: np.ndarray | None) -> Rules:
    """The rules of all parts, in order; counts are added up. place: as for `joined`."""
    stats = dict(parts[0].stats)
    stats.pop(PART, None)
    for name in (*SUMMED, "rounds", "widened"):
        if name in stats:
            stats[name] = sum(part.stats[name] for part in parts)
    rules = tuple(rule for part in parts for rule in part.rules)
    if place is not None:
        rules = tuple(rules[n] for n in place.tolist())
    return replace(parts[0], rules=rules, stats=stats)


def _mapped(path: Path, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    open(path, "xb", opener=owner_only).close()
    return np.lib.format.open_memmap(path, "w+", dtype, shape)


def _whole(parts: Run, N: int) -> Explanation:
    """The `merge` of one row of each part: all facts besides the arrays, and all checks."""
    rows, added = [], dict.fromkeys(COUNTED, 0)
    for number in range(len(parts.sizes)):
        part = without_part(parts.explanation_of(number))
        added = {name: total + part.stats.get(name, 0) for name, total in added.items()}
        row = part[:1]  # its arrays are views that would keep the part
        arrays = {
            name: np.array(getattr(row, name))
            for name in ARRAYS
            if isinstance(getattr(row, name), np.ndarray)
        }
        stats = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in row.stats.items()}
        rows.append(replace(row, stats=stats, **arrays))
    whole = merge(rows)
    provenance, stats = dict(whole.provenance), dict(whole.stats)
    if "instances" in provenance:
        provenance["instances"] = N
    if added["naive_rows"] < math.inf:  # the same for each row, explained or not
        added["naive_rows"] = added["naive_rows"] * N // int(sum(parts.sizes))
    stats |= {name: total for name, total in added.items() if name in stats}
    return replace(whole, provenance=provenance, stats=stats)


def without_part(part: Explanation) -> Explanation:
    """The explanation of a part without the facts of this part alone."""
    stats = {name: value for name, value in part.stats.items() if name != PART}
    return replace(part, stats=stats)


def _filled(
    parts: Run, whole: Explanation, place: np.ndarray | None, made: Made, fill: bool = True
) -> Explanation:
    """`whole` with the arrays of all parts; fill: read them from the parts, else they exist."""
    N = int(sum(parts.sizes)) if place is None else len(place)
    fields = {name: getattr(whole, name) for name in ARRAYS}
    of_rows = {name: array for name, array in fields.items() if isinstance(array, np.ndarray)}
    stats = [k for k, value in whole.stats.items() if per_instance(value, len(parts.sizes))]
    of_rows |= {f"stats.{name}": whole.stats[name] for name in stats}
    out = {k: made(k, (N, *array.shape[1:]), array.dtype) for k, array in of_rows.items()}
    if fill and place is None:
        _fill(parts, of_rows, out)
    elif fill:
        _spread(parts, of_rows, out, np.asarray(place), made)
    values = {name: out.get(name, fields[name]) for name in ARRAYS}
    if whole.data is not None and "data" not in of_rows:  # frames
        every = (parts.explanation_of(number).data for number in range(len(parts.sizes)))
        rows = concatenate(list(every))
        values["data"] = rows if place is None else rows_of(rows).take(place, counted=True)
    merged = {**whole.stats, **{name: out[f"stats.{name}"] for name in stats}}
    return replace(whole, stats=merged, **values)


def _fill(parts: Run, of_rows: dict[str, np.ndarray], out: dict[str, np.ndarray]) -> None:
    """Writes the rows of all parts one after the other; of_rows: an entry for each part."""
    start = 0
    for number, size in enumerate(parts.sizes):
        part = parts.explanation_of(number)
        for name, array in out.items():
            field, _, stat = name.partition(".")
            rows = part.stats.get(stat) if stat else getattr(part, field)
            # A value that a part lacks is the same for all of its rows, as in `merge`.
            array[start : start + size] = of_rows[name][number] if rows is None else rows
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
    """The same if rows of the parts represent several rows: one array after the other.

    made: makes arrays for the rows of the parts, which are held in addition.
    """
    D = int(sum(parts.sizes))
    for name, array in out.items():
        distinct = {name: made(f"{name}.distinct", (D, *array.shape[1:]), array.dtype)}
        _fill(parts, {name: of_rows[name]}, distinct)
        for start in range(0, len(place), AT_ONCE):
            array[start : start + AT_ONCE] = distinct[name][place[start : start + AT_ONCE]]
        if isinstance(array, np.memmap):
            array.flush()
            path: Any = getattr(distinct.pop(name), "filename", None)  # unmapped before removal
            os.unlink(path)
