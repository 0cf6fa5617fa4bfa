"""`Run`: a run directory as a person reads it, finished or not.

Letters: N rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.checks import whole_number, yes_or_no
from xaijax.core.errors import InputError, SweepIncompleteError
from xaijax.core.public import public, public_class
from xaijax.results.explanation import Explanation
from xaijax.results.files.npz import as_path
from xaijax.results.rules import Rules
from xaijax.sweeps import exports
from xaijax.sweeps.directory import RunDirectory, cut_of
from xaijax.sweeps.inputs import DistinctRows
from xaijax.sweeps.joined import joined, joined_rules, without_part
from xaijax.sweeps.task import PART
from xaijax.tables.rows import rows_of

CHECKED = 1 << 16  # parts whose check is remembered


@public_class
class Run:
    """A sweep's directory: which parts are there, and what they hold together.

    Made by `xaijax.sweep` and `xaijax.open_run`. It reads the directory anew where the files have
    changed, and asks no model.

    Args:
        path: the directory.

    Attributes:
        path: `pathlib.Path` of the directory.
        rows, rows_per_part, parts: ints. N, rows of the largest part, and how many parts there are.
            Of rows that occur often the parts hold one each.
        manifest: dict. What is asked: method, arguments, model, rows and versions.

    Raises:
        FileNotFoundError: there is no such directory, or no run in it.
        InputError: what is there is no run that this version reads.

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
        found = self._directory.manifest
        if found is None:
            raise FileNotFoundError(f"{self.path} holds no run of xaijax.sweep: no manifest.json.")
        self.manifest: dict[str, Any] = found
        self.rows: int = found["rows"]
        self._cut = cut_of(found)
        self.rows_per_part: int = self._cut.largest
        self.parts: int = self._cut.parts
        self._distinct: int = found["distinct"]  # rows that the parts answer
        self._valid: dict[int, tuple[int, int]] = {}  # part -> (size, time) of the file checked

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each part, of those that are asked."""
        return self._cut.sizes

    def range_of(self, part: int) -> tuple[int, int]:
        """(first, last + 1) of the rows of a part, among those that are asked."""
        self._refuse_part(part)
        return self._cut.range_of(part)

    @property
    def labels(self) -> Any:
        """The pandas Index [N] of the frame that is explained, where it is not 0..N-1; or None."""
        return self._directory.labels

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of the parts that have no valid file: not answered, failed or damaged."""
        return tuple(n for n in range(self.parts) if not self._is_valid(n))

    @property
    def failed(self) -> dict[int, str]:
        """{part: why} of the missing parts that a driver gave up."""
        missing = set(self.missing)
        return {n: said for n, said in self._directory.failed.items() if n in missing}

    def explanation(self, lazy: bool = False) -> Explanation:
        """One `Explanation` of all N rows.

        Args:
            lazy: True: its arrays are memory maps of files that are written beside the parts when
                first asked for, so that no more memory is taken than a part needs. Rows that were
                frames are read all the same.

        Returns:
            An `Explanation`, as `xaijax.merge` of its parts. stats["platform"] says where they
            were made: a list where they come from several platforms, whose last bits may differ.

        Raises:
            SweepIncompleteError: parts are missing. InputError: the parts hold rules.
        """
        yes_or_no(lazy, "lazy")
        self._refuse_incomplete()
        self._refuse_kind(Explanation)
        found = joined(self, lazy, self.path, self._place)
        index = self.labels
        if index is None:
            return found
        data = None if found.data is None else rows_of(found.data).labelled(index)
        return replace(found, data=data, instance_index=index)

    def rules(self) -> Rules:
        """The `Rules` of all N rows, of an `AnchorExplainer`.

        Raises:
            SweepIncompleteError: parts are missing. InputError: the parts hold no rules.
        """
        self._refuse_incomplete()
        self._refuse_kind(Rules)
        found = [self._directory.read(n) for n in range(self.parts)]
        rules = joined_rules([one for one in found if isinstance(one, Rules)], self._place)
        return replace(rules, instance_index=self.labels)

    def to_parquet(self, path: str | os.PathLike[str]) -> Path:
        """Write one Parquet file, a row group for each part. Needs `xaijax[scale]`.

        Columns: row (its place in X), instance (its label, of a frame whose index is not 0..N-1; of
        an index of several levels a column instance_<level> for each), base_value, phi_<name> and
        se_<name> (a standard error; where any part was sampled) for each player; with several
        outputs base_value_<output>, phi_<name>_<output> and so on; with `outputs=` also output,
        that of each instance. Of rules: row, instance, rule, prediction, precision,
        precision_lower, coverage, accepted, samples. The schema's metadata say what was asked.

        Args:
            path: the file. One of an earlier call is replaced whole, and no other.

        Returns:
            Its `Path`.

        Raises:
            SweepIncompleteError: parts are missing. InputError: two columns would have one name; a
                file is there that no run wrote, or no folder.
        """
        self._refuse_incomplete()
        return exports.to_parquet(self, path)

    def to_zarr(self, path: str | os.PathLike[str]) -> Path:
        """Write a zarr group, a chunk for each part. Needs `xaijax[scale]`.

        Its arrays are values [N, P] or [N, P, K], base_values and, where any part was sampled,
        std_errors; with `outputs=` also outputs [N], the model's columns. Its attributes say what
        was asked, with the names.

        Args:
            path: the directory of the group: a new or an empty one, or that of an earlier call,
                which is replaced whole.

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
        """The explanation of one part, as it was written; its stats say where and when."""
        self._refuse_part(number)
        found = self._directory.read(number)
        if not isinstance(found, Explanation):
            raise InputError(f"{self.path} holds rules: say run.rules().")
        stats = {**found.stats, "platform": found.stats.get(PART, {}).get("platform")}
        return without_part(replace(found, stats=stats))

    def read(self) -> Iterator[tuple[int, Explanation | Rules]]:
        """(first row, the answer) of at most `rows_per_part` rows, one after the other."""
        if self._place is None:
            for number in range(self.parts):
                yield self.range_of(number)[0], self._directory.read(number)
            return
        rules = isinstance(self._directory.read(0), Rules)
        found = self.rules() if rules else self.explanation(lazy=True)
        for first in range(0, self.rows, self.rows_per_part):
            yield first, found[first : first + self.rows_per_part]

    @property
    def _place(self) -> np.ndarray | None:
        """Which of the rows of the parts each row is; None: they are the rows."""
        return None if self._distinct == self.rows else DistinctRows.read(self.path).place

    def _is_valid(self, number: int) -> bool:
        try:
            there = os.stat(self._directory.part(number))
        except OSError:
            return False
        mark = there.st_size, there.st_mtime_ns
        if self._valid.get(number) == mark:
            return True
        first, last = self.range_of(number)
        if self._directory.wrong(number, first, last) is not None:
            return False
        if len(self._valid) < CHECKED:
            self._valid[number] = mark
        return True

    def _refuse_incomplete(self) -> None:
        missing = self.missing
        if missing:
            failed = self.failed
            some = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
            told = (
                f" {len(failed)} of them failed: {next(iter(failed.values()))}." if failed else ""
            )
            raise SweepIncompleteError(
                f"{self.path} lacks {len(missing):,} of {self.parts:,} parts ({some}).{told} Call "
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
    """Open the directory of a sweep, finished or not; see `Run`.

    Args:
        out: the directory, as it was given to `xaijax.sweep`.

    Returns:
        A `Run`.

    Raises:
        FileNotFoundError: there is no run. InputError: it is of a newer version, or damaged.

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
