"""The user's own perturbation space: a sampler, called for all rows of a round at once.

sampler(X [M, *F], kept bool [M, P], u float64 [M, P]) -> rows [M, *F]: row m is drawn around X[m]
with the players `kept[m]` kept, using u[m] as the only source of randomness. These uniform numbers
are a hash of (seed, the instance's bytes, the rule, draw), so they do not depend on other rows.

Letters: N instances, P players (columns, unless grouped), Q questions, M rows, A answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError, ModelOutputError
from xaijax.core.process import in_order
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.loop import named_rows
from xaijax.games.measure.score import Score
from xaijax.games.rules.bins import Bins
from xaijax.games.rules.game import Cover, one_word
from xaijax.games.rules.players_space import PlayerSpace
from xaijax.games.rules.pulls import Pulls, RuleDevice, shorten_tiles, words_of
from xaijax.games.run import GameRun
from xaijax.models.queries.findings import answer_host
from xaijax.players.players import PerInstancePlayers, Players
from xaijax.tables.rows import rows_of
from xaijax.tables.same_memory import fingerprints
from xaijax.tables.table import FloatTable, read_by
from xaijax_kernels.rules.beam import rule_keys
from xaijax_kernels.rules.perturbed_rows import PerturbationSpace, Pool, Subjects, keys_of

ROWS = 1 << 15  # rows drawn together


class SampledGame:
    """The rules of some instances in a sampler's space; with the methods of `game.RuleGame`."""

    def __init__(
        self,
        evaluator: Evaluator,
        score: Score,
        sampler: Callable[..., Any] | PlayerSpace,
        bins: Bins | None,
        players: Players | PerInstancePlayers,
        seed: int,
        coverage_samples: int,
        rows: Any,
        first: int = 0,
        coalitions: Callable[[int], int] | None = None,
    ) -> None:
        """bins: None if predicates do not refer to bins, and there is no coverage.

        first: which row of X the first is, for messages; coalitions: as `GameRun.coalitions`.
        """
        self.evaluator, self._score, self._sampler = evaluator, score, sampler
        self.read_bins, self._players, self._seed = bins, players, seed
        self._table, self.rows = read_by(evaluator.engine.replacement.table), rows
        self.questions = GameRun(evaluator, rows, first=first)
        self.questions.coalitions = coalitions
        self.prints = fingerprints(rows)
        N = len(rows_of(rows))
        shorten_tiles(self.questions)
        self.own = self.questions.full_rows(np.arange(N), scored=False)
        self.rows_asked = 0
        self._owner: Any = None  # of each code column, where a `PlayerSpace` draws
        if isinstance(sampler, PlayerSpace):
            donors = evaluator.engine.replacement
            self._owner = sampler.owner(donors.table.codes_per_column, first, N)
            self._others = sampler.others(self.questions.table, rows, donors)
        self.bins = None if bins is None else bins.of(rows)
        self.low = self.high = self.bins  # a rule keeps x's bin only
        self.cover = None if bins is None else self._covered(coverage_samples)
        self._loop: RuleDevice | None = None

    @property
    def N(self) -> int:
        """Instances."""
        return len(self.prints)

    @property
    def F(self) -> int:
        """Players."""
        return self._players.count

    def allowed(self) -> np.ndarray:
        """Players that may be in an instance's rule; bool [N, P]."""
        if isinstance(self._sampler, PlayerSpace):
            codes, first = self.questions.codes, self.questions.first
            return self._sampler.matters(codes, self._owner, self._others, first)
        return np.ones((self.N, self.F), bool)

    def hits(
        self, instance: np.ndarray, rules: np.ndarray, first: np.ndarray, draws: np.ndarray
    ) -> np.ndarray:
        """How many of the draws first .. first + draws - 1 of each rule agree; int64 [Q]."""
        question = np.repeat(np.arange(len(draws)), draws)
        before = np.repeat(np.cumsum(draws) - draws, draws)
        draw = np.arange(len(question)) - before + first[question]
        keys = one_word(rule_keys(rules))
        agrees = np.zeros(len(question), bool)
        for at in range(0, len(question), ROWS):
            part = slice(at, at + ROWS)
            q = question[part]
            who = instance[q]
            agrees[part] = self._agrees(who, rules[q], keys[q], draw[part])
        self.rows_asked += len(question)
        return np.bincount(question, agrees, minlength=len(draws)).astype(np.int64)

    def _agrees(
        self, who: np.ndarray, rules: np.ndarray, keys: np.ndarray, draw: np.ndarray
    ) -> np.ndarray:
        """Whether the model agrees for draws around the instances `who`; bool [M]."""
        if not isinstance(self._sampler, PlayerSpace):
            return self._asked(self._drawn(who, rules, keys, draw), who)
        u = uniforms(self._seed, self.prints[who], keys, draw, self.F)
        owner = self._owner if self._owner.ndim == 1 else self._owner[who]
        around = self.questions.codes[who]
        codes = self._sampler.drawn(around, owner, self._others, who, rules, u)
        if self.evaluator.engine.model.backend == "jax":
            return self._scored(self._by_device(codes, who), who)
        return self._scored(self._by_host(self._others.table.asked(codes), who), who)

    def _drawn(self, who: np.ndarray, rules: np.ndarray, keys: np.ndarray, draw: np.ndarray) -> Any:
        """Rows of the sampler, checked."""
        u = uniforms(self._seed, self.prints[who], keys, draw, self.F)
        around = rows_of(self.rows).take(who, counted=True)
        assert not isinstance(self._sampler, PlayerSpace)
        made = self._sampler(around, rules.copy(), u)
        if not hasattr(made, "__len__"):
            raise InputTypeError(
                f"perturbation: the sampler must return rows, got {type(made).__name__}."
            )
        if len(rows_of(made)) != len(who):
            raise InputError(
                f"perturbation: the sampler was asked for {len(who):,} rows and made "
                f"{len(rows_of(made)):,}."
            )
        rows = self._table.read(
            made, "perturbation", self.evaluator.engine.model.allow_nan, "the data"
        )
        if isinstance(table := self.questions.table, FloatTable):
            rows = table.like(rows, "what the sampler of perturbation= made")
        self._refuse_broken(rows, who, rules)
        return rows

    def _refuse_broken(self, rows: Any, who: np.ndarray, rules: np.ndarray) -> None:
        """Raises InputError if the sampler did not keep what the rule keeps."""
        assert isinstance(self._players, Players)
        if self.read_bins is not None:
            assert self.bins is not None
            changed = self.read_bins.of(rows) != self.bins[who]
        else:
            flat = rows_of(rows).matrix().reshape(len(who), -1)
            unchanged = rows_of(self.rows).matrix().reshape(self.N, -1)[who]
            moved = flat != unchanged
            order = np.argsort(self._players.of_column, kind="stable")
            starts = np.searchsorted(self._players.of_column[order], np.arange(self.F))
            changed = np.logical_or.reduceat(moved[:, order], starts, axis=1)
        broken = np.argwhere(changed & rules)
        if len(broken):
            m, f = broken[0]
            row = int(who[m]) + self.questions.first
            raise InputError(
                f"perturbation: the sampler changed {self._players.names[f]!r} of X row "
                f"{row}, which the rule keeps (kept[{int(m)}, {int(f)}] is True). It must "
                "leave kept players in their bin, or as they are where they have none."
            )

    def _asked(self, rows: Any, who: np.ndarray) -> np.ndarray:
        """Whether the model agrees; bool [M]."""
        codes = None
        # Unless a translation is dropped for these rows.
        if self.evaluator.engine.model.backend == "jax":
            codes = self.evaluator.encoded(rows)[1]
        if not self.evaluator.engine.uses_host:
            return self._scored(self._by_device(codes, who), who)
        if rows_of(rows).kind == "tree":  # which the engine calls by codes
            table, codes = self._table.encode(rows)
            rows = table.asked(codes)
        return self._scored(self._by_host(rows, who), who)

    def _scored(self, scores: np.ndarray, who: np.ndarray) -> np.ndarray:
        """Whether the scores [M] of draws around the instances `who` mean agreement."""
        if not np.isfinite(scores).all() and self.evaluator.engine.model.nonfinite != "propagate":
            n = int(who[np.flatnonzero(~np.isfinite(scores))[0]]) + self.questions.first
            raise ModelOutputError(
                f"the model returned NaN or infinity for a row drawn around X row {n}. Fix the "
                'model, or say nonfinite="propagate" in as_model.'
            )
        return scores > 0.5

    def _by_host(self, rows: Any, who: np.ndarray) -> np.ndarray:
        backend: Any = self.questions.backend()
        call, M = backend.rows_per_call, len(rows_of(rows))

        def ask(first: int) -> np.ndarray:
            places = np.arange(first, min(first + call, M))
            chunk = rows_of(rows).take(places, counted=True)
            try:
                model = self.evaluator.engine.model
                return answer_host(model, chunk, first, self.own.shape[1])
            except Exception as error:
                names = named_rows(who[first : first + call] + self.questions.first)
                error.add_note(f"xaijax: these are drawn around X {names}")
                raise

        calls = range(0, M, call)
        backend.clock.model_calls += len(calls)
        answers = np.concatenate(list(in_order(ask, calls, backend.threads)))
        return self._score(answers, self.own[who])[:, 0]

    def _by_device(self, codes: Any, who: np.ndarray) -> np.ndarray:
        """`_asked` by a program: in its tiles the rows [M, C] are the donors, and nothing is
        kept."""
        if self._loop is None and self.questions.probe_small():
            small: Any = self.questions.backend()
            return self._score(small.by_program(codes), self.own[who])[:, 0]
        if self._loop is None:
            backend: Any = self.questions.backend()
            self._loop = RuleDevice(backend.programs, self._score)
            none = np.zeros((self.N, 1), np.int32)
            columns = self.questions.codes.shape[1]
            self._subjects = Subjects(
                self.questions.codes.reshape(self.N, columns, 1), none, none, self.own
            )
        M, columns = len(codes), self.questions.codes.shape[1]
        donors = np.zeros((ROWS, columns, 1), self.questions.codes.dtype)
        donors[:M, :, 0] = codes
        zero = np.zeros((1, 1), np.int32)
        chance = np.ones((1, 1), np.float32)
        listed = np.arange(ROWS, dtype=np.int32)
        pool = Pool(donors, listed, zero, zero, zero, zero, chance, zero)
        header = np.full((M, 5), -1, np.int32)
        header[:, 0], header[:, 1:3], header[:, 3] = who, 0, np.arange(M)
        pulls = Pulls(header, np.arange(M), np.ones(M, np.int64), 1)
        bits, bad = self._loop.bits(
            PerturbationSpace(columns, "own", listed=True), pool, self._subjects, pulls
        )
        out = (bits[:, 0] & 1).astype(float)
        if bad >= 0:
            out[bad] = np.nan
        return out

    def _covered(self, samples: int) -> Cover:
        """Coverage from each instance's own draws with nothing kept."""
        assert self.read_bins is not None and self.bins is not None
        bins = np.empty((self.N, samples, self.F), np.int32)
        who = np.repeat(np.arange(self.N), samples)
        draw = np.tile(np.arange(samples), self.N)
        flat = bins.reshape(-1, self.F)
        for at in range(0, len(who), ROWS):
            part = slice(at, at + ROWS)
            n = len(who[part])
            # Draws without a rule have a key that no rule has.
            keys = np.full(n, 0xC0FFEE, np.uint64)
            rows = self._drawn(who[part], np.zeros((n, self.F), bool), keys, draw[part])
            flat[part] = self.read_bins.of(rows)
        return Cover(bins, self.bins, np.full(samples, 1 / samples))


def uniforms(
    seed: int, prints: np.ndarray, rules: np.ndarray, draw: np.ndarray, P: int
) -> np.ndarray:
    """Numbers in (0, 1), float64 [M, P], by (seed, instance, rule, draw, player)."""
    key = words_of(keys_of(seed, prints, rules))
    key = words_of(keys_of(1, key, draw.astype(np.uint64)))
    each = np.repeat(key, P)
    word = words_of(keys_of(2, each, np.tile(np.arange(P, dtype=np.uint64), len(key))))
    return ((word >> np.uint64(11)) + 0.5).reshape(len(key), P) * 2.0**-53


def check_sampler(sampler: Any) -> Callable[..., Any]:
    """Returns the sampler, or raises InputTypeError."""
    if not callable(sampler):
        raise InputTypeError(
            "perturbation must be 'row', 'row_bin', 'flip', 'joint', 'conditional' or a sampler "
            f"f(X, kept, u) -> rows, got {sampler!r}."
        )
    return sampler
