"""`RuleGame`: rules of N instances, their coverage and their precision.

Letters: N instances, B donors, F columns, A outputs of the model, Q questions (an instance and a
rule each), D listed draws, S shares of the draws that are summed separately, w = ceil(B / 64)
words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.games.engine.dispatch import ProgramRecipe
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.host import HostBackend
from xaijax.games.engine.plan import MemoryPlan
from xaijax.games.measure.replacement.base import agreement_codes
from xaijax.games.measure.score import Score
from xaijax.games.rules import pulls
from xaijax.games.rules.pulls import RuleDevice, RuleHost, satisfying, shorten_tiles
from xaijax.games.rules.space import Perturbation
from xaijax.games.run import GameRun
from xaijax.tables.same_memory import fingerprints
from xaijax.tables.table import FloatTable
from xaijax_kernels.rules.beam import rule_keys
from xaijax_kernels.rules.perturbed_rows import (
    HEADER,
    PerturbationSpace,
    Pool,
    Subjects,
    keys_of,
)

MOST_FLAGS = 1 << 23  # draws whose pulls are made together
BYTES_OF_DRAW = 32  # a position, a number in process and in a pull, and flags
SHARED = np.uint64(0)  # instead of fingerprint and rule, for draws that all rules share


def draws_at_a_time(memory: MemoryPlan) -> int:
    """The draws whose pulls are made together."""
    return min(MOST_FLAGS, memory.fits("results", BYTES_OF_DRAW))


class RuleAsker:
    """The shared state of one explainer's rule games: the loop, and the pool's arrays."""

    def __init__(
        self, evaluator: Evaluator, space: Perturbation, score: Score, seed: int, donors: Any
    ) -> None:
        """donors: the data rows [B] with all their digits; the model may read fewer digits."""
        self.evaluator, self.score, self.seed = evaluator, score, seed
        # The estimator may already run instead of the translation for which the space was made.
        self._space = space.of_donors(evaluator.engine.replacement)
        self.bins = space.bins.of(donors)  # int32 [B, F]
        self._forget()

    def _forget(self) -> None:
        self._donors, self._fits = self.evaluator.engine.replacement, self.evaluator.fits
        self._pools: dict[str, Pool] = {}
        self._loop: RuleDevice | RuleHost | None = None
        self._questions: GameRun | None = None  # for which the loop was made
        self.donor_answers: np.ndarray | None = None  # [B, A]

    @property
    def space(self) -> Perturbation:
        """The space with the evaluator's donors, which change when a translation is dropped."""
        if self._fits != self.evaluator.fits:
            self._forget()
        if self.evaluator.engine.replacement is not self._donors:
            self._space = self._space.of_donors(self.evaluator.engine.replacement)
            self._forget()
        return self._space

    def pool(self, search: str) -> Pool:
        """The kernel's arrays for this kind of search."""
        kind = search if search in ("exact", "table") else "draws"
        if kind not in self._pools:
            self._pools[kind] = self.space.pool(search, self.bins)
        return self._pools[kind]

    def loop(self, questions: GameRun) -> RuleDevice | RuleHost:
        """The loop that runs the model; the first call probes it. A larger query gets another
        loop."""
        if self._loop is None or self._questions is not questions:
            self._questions, backend = questions, cast(Any, questions.backend())
            if isinstance(backend, HostBackend):
                self._loop = RuleHost(backend, self.score)
            else:
                self._loop = RuleDevice(backend.programs, self.score)
        if isinstance(self._loop, RuleHost):
            self._loop.first = questions.first
        return self._loop

    def cost(
        self, questions: GameRun, search: str, listed: bool, first: int, draws: int
    ) -> tuple[ProgramRecipe | None, int]:
        """(recipe of the program of the first round's pulls, its runs in a search) for `first`
        draws of each instance in the first round and `draws` in total; listed: they are listed.
        None for a host model and for small queries, which have no such program.
        """
        loop, space = self.loop(questions), self.space
        if isinstance(loop, RuleHost):
            return None, 0
        each = pulls.NAMED if listed else 1 if space.OF_ROWS else pulls.SHORT
        M, N = (questions.N * -(-count // each) for count in (first, draws))
        kind = replace(space.space(search), named=True) if listed else space.space("draws")
        pool, F = self.pool(search if listed else "draws"), self.bins.shape[1]
        L = HEADER + _longest(np.zeros((1, F), bool), F) + (each if listed else 0)
        recipe, calls = loop.cost(kind, pool, questions.engine.findings.outputs, M, each, L)
        return recipe, -(-N // M) * calls


class RuleGame:
    """The rules of the instances `rows`; bins read all digits of the rows, the model those of its
    dtype."""

    def __init__(
        self,
        asker: RuleAsker,
        rows: Any,
        first: int = 0,
        coalitions: Callable[[int], int] | None = None,
    ) -> None:
        """first: which row of X the first is, for messages; coalitions: as `GameRun.coalitions`."""
        self.rows, encoded = rows, as_encoded(asker.evaluator, rows)
        self.questions = GameRun(asker.evaluator, encoded, first=first)
        self.questions.coalitions = coalitions
        # After reading the rows, which decides whether a translation is used.
        self.asker, self.space, self.read_bins = asker, asker.space, asker.space.bins
        self.bins = asker.space.bins.of(rows)  # int32 [N, F]
        # The bins that a rule keeps in a column: low .. high, both int32 [N, F].
        self.low, self.high = self.bins, self.bins
        self.prints = fingerprints(encoded)  # uint64 [N]
        self.cover = Cover(asker.bins, self.bins, asker.space.weights)
        shorten_tiles(self.questions)
        self.own = self.questions.full_rows(np.arange(self.N), scored=False)  # [N, A]
        self._subjects = self._made_subjects()
        self._agrees: np.ndarray | None = None
        self._known = KnownDraws(self.bins.shape[1])
        self.rows_asked = 0

    @property
    def N(self) -> int:
        """Instances."""
        return len(self.bins)

    @property
    def F(self) -> int:
        """Columns."""
        return self.bins.shape[1]

    def allowed(self) -> np.ndarray:
        """Columns that may be in an instance's rule; bool [N, F]."""
        return self.cover.supported() | ~self.space.needs_support()

    def keep_ranges(self, low: np.ndarray, high: np.ndarray) -> None:
        """Rules keep the bins low .. high of a column from now on; int32 [N, F], x's bin inside."""
        for f in range(self.F):
            moved = (low[:, f] != self.low[:, f]) | (high[:, f] != self.high[:, f])
            who = np.flatnonzero(moved)
            self.cover.put(who, f, self.asker.bins[:, f], low[who, f], high[who, f])
        self.low, self.high = low.copy(), high.copy()
        self._subjects = self._made_subjects()
        self._known = KnownDraws(self.F)  # they belong to other ranges

    def hits(
        self, instance: np.ndarray, rules: np.ndarray, first: np.ndarray, draws: np.ndarray
    ) -> np.ndarray:
        """Number of agreeing draws among first .. first + draws - 1 of each rule; int64 [Q].

        instance int [Q], rules bool [Q, F].
        """
        keys = keys_of(self.asker.seed, self.prints[instance], one_word(rule_keys(rules)))
        if self.space.OF_ROWS:
            return self._hits_of_rows(instance, rules, keys, first, draws)
        space = self.space.space("draws")
        longest = _longest(rules, self.F)
        batch = pulls.pulls_of(instance, keys, rules, first, draws, pulls.SHORT, longest)
        bits = self._bits(space, self.asker.pool("draws"), batch)
        return pulls.counts(batch, bits, len(instance))

    def precisions(
        self, instance: np.ndarray, rules: np.ndarray, search: str, shares: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(the mean agreement over each share, the effective number of its draws); float64 [Q, S]
        each.

        search: "exact" or "table"; shares: bool [D, S], the listed draws of each share; draws
        without a share are not evaluated. The effective number is Kish's (sum w)^2 / sum w^2: the
        number itself for equal weights.
        """
        weights = self.space.listed(search)[1][:, None] * shares  # [D, S]
        drawn = shares.any(axis=1)  # a draw without a share is not evaluated
        means, sizes = np.empty((2, len(instance), shares.shape[1]))
        D = len(weights)
        memory = self.asker.evaluator.engine.memory
        step = max(1, draws_at_a_time(memory) // D)
        keep = min(MOST_BITS, 8 * memory.share("parts"))
        packed = []
        for at in range(0, len(instance), step):
            part = slice(at, at + step)
            agrees = self._listed(instance[part], rules[part], search, drawn)
            if self.space.OF_ROWS:
                satisfied = self._satisfied(instance[part], rules[part])
                satisfied = np.repeat(satisfied, D // self.space.B, axis=1)
            else:
                satisfied = None
            means[part], sizes[part] = _means(agrees, satisfied, weights)
            if self._shares_draws and len(instance) * D <= keep:
                packed.append(np.packbits(agrees, axis=1))
        if packed:
            self._known.keep(instance, rules, np.concatenate(packed), drawn)
        return means, sizes

    def _listed(
        self, instance: np.ndarray, rules: np.ndarray, search: str, drawn: np.ndarray
    ) -> np.ndarray:
        """Returns which of the draws `drawn` bool [D] agree; bool [Q, D]."""
        if self.space.ASKS_DATA:
            return self._donor_agrees(instance)
        if self.space.OF_ROWS:
            return self._pairs(instance, rules, drawn)
        donors = self.space.listed(search)[0]
        wanted = np.repeat(drawn[None], len(instance), axis=0)
        agrees = np.zeros(wanted.shape, bool)
        space = self.space.space(search)
        empty = np.flatnonzero(~rules.any(axis=1))
        if space.takes is None and not space.masks:  # then these rows are the donors themselves
            agrees[empty] = self._donor_agrees(instance[empty])[:, donors]
            wanted[empty] = False
        if self._shares_draws:
            for f, q, place in self._known.parents(instance, rules, drawn):
                same = self._same(instance[q], f, donors) & wanted[q]
                agrees[q] |= self._known.flags(place, len(drawn)) & same
                wanted[q] ^= same
        keys = np.repeat(keys_of(self.asker.seed, SHARED, SHARED), len(instance), axis=0)
        agrees |= self._named(instance, keys, rules, wanted, search)
        return agrees

    def _named(
        self,
        instance: np.ndarray,
        keys: np.ndarray,
        rules: np.ndarray,
        wanted: np.ndarray,
        search: str,
    ) -> np.ndarray:
        """Returns which of the listed draws wanted bool [Q, D] agree; False for the others."""
        agrees = np.zeros(wanted.shape, bool)
        longest = _longest(rules, self.F)
        batch, place = pulls.named_pulls(instance, keys, rules, wanted, pulls.NAMED, longest)
        if len(place):
            space = replace(self.space.space(search), named=True)
            bits = self._bits(space, self.asker.pool(search), batch)
            used = np.arange(pulls.NAMED) < batch.used[:, None]
            agrees.ravel()[place] = pulls.flags(bits, pulls.NAMED)[used]
        return agrees

    @property
    def _shares_draws(self) -> bool:
        """Whether hybrids may equal those of a smaller rule: donors that agree stay unchanged."""
        return self.space.KEEPS_DONORS and self.asker.evaluator.engine.model.deterministic

    def _same(self, who: np.ndarray, f: int, donors: np.ndarray) -> np.ndarray:
        """Whether keeping column f leaves the listed donors unchanged; bool [q, D]."""
        if self.space.draws_in_bins:
            theirs = self.asker.bins[donors, f]
            return (self.low[who, f, None] <= theirs) & (theirs <= self.high[who, f, None])
        theirs = self.space.replacement.bits.reshape(self.space.B, self.F, -1)
        mine = agreement_codes(self.questions.codes).reshape(self.N, self.F, -1)
        same = np.ones((len(who), len(donors)), bool)
        for c in range(theirs.shape[2]):
            same &= theirs[donors, f, c] == mine[who, f, c, None]
        return same

    def _pairs(self, instance: np.ndarray, rules: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        """`_listed` for the pairs of donors of `joint`; bool [Q, B B]."""
        Q, B = len(instance), self.space.B
        # Kept columns come from a donor that satisfies the rule; other donors are not evaluated.
        wanted = self._satisfied(instance, rules)[:, :, None] & drawn.reshape(B, B)
        who, repeated = np.repeat(instance, B), np.repeat(rules, B, axis=0)
        keys = np.zeros((Q * B, 2), np.int32)
        keys[:, 0] = np.tile(np.arange(B), Q)
        return self._named(who, keys, repeated, wanted.reshape(Q * B, B), "exact").reshape(Q, B * B)

    def _hits_of_rows(
        self,
        instance: np.ndarray,
        rules: np.ndarray,
        keys: np.ndarray,
        first: np.ndarray,
        draws: np.ndarray,
    ) -> np.ndarray:
        """`hits` if kept columns come from a row that satisfies the rule."""
        holds = self._satisfied(instance, rules)
        question, donor, free = satisfying(holds, self.space.weights, keys, first, draws)
        if self.space.ASKS_DATA:
            agrees = self._donor_agrees(instance)[question, donor]
            return np.bincount(question, agrees, minlength=len(instance)).astype(np.int64)
        header = np.empty((len(question), 4 + _longest(rules, self.F)), np.int32)
        header[:, 0], header[:, 1], header[:, 2] = instance[question], donor, 0
        header[:, 3] = free
        header[:, 4:] = pulls.rule_columns(rules, header.shape[1] - 4)[question]
        batch = pulls.Pulls(header, question, np.ones(len(question), np.int64), 1)
        bits = self._bits(self.space.space("draws"), self.asker.pool("draws"), batch)
        return pulls.counts(batch, bits, len(instance))

    def _satisfied(self, instance: np.ndarray, rules: np.ndarray) -> np.ndarray:
        """Donors that satisfy the rules; bool [Q, B]."""
        return self.cover.flags(self.cover.satisfied(instance, rules[:, None])[:, 0])

    def _bits(self, space: PerturbationSpace, pool: Pool, batch: pulls.Pulls) -> np.ndarray:
        loop = self.asker.loop(self.questions)
        bits, bad = loop.bits(space, pool, self._subjects, batch)
        count = int(batch.used.sum())
        self.rows_asked += count
        # The padding of a pull is evaluated too, and ignored.
        self.asker.evaluator.clock.padded_rows += len(batch.header) * batch.draws - count
        if bad >= 0 and self.asker.evaluator.engine.model.nonfinite != "propagate":
            row = int(batch.header[bad, 0]) + self.questions.first
            raise ModelOutputError(
                f"the model returned NaN or infinity for a row drawn around X row {row}, or "
                "one that was asked together with it. Fix the "
                'model, or say nonfinite="propagate" in as_model.'
            )
        return bits

    def _donor_agrees(self, instance: np.ndarray) -> np.ndarray:
        """Whether the unchanged donors have the instance's output; bool [Q, B]."""
        if self._agrees is None:
            if self.asker.donor_answers is None:
                self.asker.donor_answers = self.questions.full_donors()
            donors = self.asker.donor_answers
            B, step = len(donors), max(1, (1 << 22) // len(donors))
            self._agrees = np.empty((self.N, B), bool)
            for first in range(0, self.N, step):
                reference = self.own[first : first + step]
                tiled = np.tile(donors, (len(reference), 1))
                scores = np.asarray(self.asker.score(tiled, np.repeat(reference, B, axis=0)))[:, 0]
                self._agrees[first : first + step] = scores.reshape(-1, B) > 0.5
        return self._agrees[instance]

    def _made_subjects(self) -> Subjects:
        """The subjects, padded to a power of two, so that few shapes compile."""
        codes = self.questions.codes
        rows = 1 << max(0, self.N - 1).bit_length()

        def padded(array: np.ndarray) -> Any:
            return np.concatenate([array, np.repeat(array[-1:], rows - len(array), axis=0)])

        shaped = codes.reshape(self.N, self.F, -1)
        return Subjects(padded(shaped), padded(self.low), padded(self.high), padded(self.own))


def as_encoded(evaluator: Evaluator, rows: Any) -> Any:
    """Rows with all their digits, in the form that the model reads."""
    table = evaluator.engine.replacement.table
    return table.rounded(rows) if isinstance(table, FloatTable) else rows


def _longest(rules: np.ndarray, F: int) -> int:
    """Number of columns of a pull: all if these are few, so that one program serves all rules."""
    if F <= 32:
        return F
    most = int(rules.sum(axis=1).max(initial=1))
    return min(F, max(16, 1 << max(0, most - 1).bit_length()))


def one_word(keys: np.ndarray) -> np.ndarray:
    """uint64 [Q] of keys uint64 [Q, 2]."""
    return keys[:, 0] ^ (keys[:, 1] * np.uint64(0x9E3779B97F4A7C15))


def _means(
    agrees: np.ndarray, satisfied: np.ndarray | None, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means of bool [Q, D] over the shares of weights [D, S], and effective numbers.

    The mean of a share with equal weights is a ratio of counts, so 14 of 15 are 14 / 15.
    """
    positive = weights > 0
    least = np.where(positive, weights, np.inf).min(axis=0, initial=np.inf)
    equal = least == weights.max(axis=0, initial=0)
    weights = np.where(equal, positive, weights)
    satisfied = np.ones((1, len(weights)), bool) if satisfied is None else satisfied
    total = _product(satisfied, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(total > 0, _product(agrees & satisfied, weights) / total, 0.0)
        sizes = np.where(total > 0, total**2 / _product(satisfied, weights**2), 0.0)
    return np.where(equal, means, without_last_bits(means)), np.broadcast_to(sizes, means.shape)


def _product(flags: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """flags bool [Q, D] @ weights [D, S] in float64."""
    out = np.empty((len(flags), weights.shape[1]))
    for s, column in enumerate(weights.T):
        used = np.flatnonzero(column)
        if (column[used] == 1).all():
            out[:, s] = np.count_nonzero(flags[:, used], axis=1)
        else:
            out[:, s] = flags[:, used] @ column[used]
    return out


# If the donor agrees with x in column j (bit for bit, or by staying in x's bin), also keeping j
# changes nothing: the hybrid of rule A + j is that of A. Rules of one size are evaluated after
# those of the previous size, whose results are kept here, one bit per draw. A rule has several
# parents: the kept rule that it extends, and the same extension of that rule's parents.

MOST_BITS = 1 << 31  # of kept results, a bit each
_MIX = np.uint64(0x9E3779B97F4A7C15)


class KnownDraws:
    """The results of the last round."""

    def __init__(self, F: int) -> None:
        self._columns = _folded(rule_keys(np.eye(F, dtype=bool)))  # uint64 [F]
        self._keys = np.zeros(0, np.uint64)
        self._order = np.zeros(0, np.int64)
        self._who = np.zeros(0, np.int64)
        self._rules = np.zeros((0, F), bool)
        self._bits = np.zeros((0, 0), np.uint8)
        self._asked = np.zeros(0, bool)

    def parents(
        self, who: np.ndarray, rules: np.ndarray, drawn: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yields for each column f: (f, questions int [q] whose rule without f is known, its
        positions int [q]).

        who int [Q], rules bool [Q, F]; drawn: bool [D], the requested draws, which must all be
        known.
        """
        if not len(self._keys) or (drawn & ~self._asked).any():
            return
        keys = _folded(rule_keys(rules)) ^ _of_instance(who)
        for f in range(rules.shape[1]):
            q = np.flatnonzero(rules[:, f])
            at = np.searchsorted(self._keys, keys[q] ^ self._columns[f])
            places = self._order[np.minimum(at, len(self._keys) - 1)]
            # Keys may collide, so the rules are compared.
            parent = rules[q].copy()
            parent[:, f] = False
            same = (self._who[places] == who[q]) & (self._rules[places] == parent).all(axis=1)
            if same.any():
                yield f, q[same], places[same]

    def flags(self, places: np.ndarray, D: int) -> np.ndarray:
        """The results at these positions; bool [n, D]."""
        return np.unpackbits(self._bits[places], axis=1, count=D).astype(bool)

    def keep(self, who: np.ndarray, rules: np.ndarray, bits: np.ndarray, drawn: np.ndarray) -> None:
        """Stores a round's results for the requested draws; bits uint8 [Q, D / 8] of
        `numpy.packbits`."""
        self._asked = drawn
        keys = _folded(rule_keys(rules)) ^ _of_instance(who)
        self._order = np.argsort(keys, kind="stable")
        self._keys, self._who, self._rules = keys[self._order], who, rules
        self._bits = bits


def _folded(keys: np.ndarray) -> np.ndarray:
    """64-bit keys from keys uint64 [..., 2], linear: a rule's key is the XOR of those of its
    columns."""
    return keys[..., 0] ^ (keys[..., 1] << np.uint64(17)) ^ (keys[..., 1] >> np.uint64(47))


def _of_instance(who: np.ndarray) -> np.ndarray:
    word = (who.astype(np.uint64) + np.uint64(1)) * _MIX
    return word ^ (word >> np.uint64(31))


SETTLED = 12  # decimal digits kept of a sum of unequal weights


class Cover:
    """Bit sets of the rows in each instance's bins, column by column."""

    def __init__(self, rows: np.ndarray, bins: np.ndarray, weights: np.ndarray) -> None:
        """rows: bins int32 [B, F] of rows that all instances share, or [N, B, F]; bins [N, F].

        weights: float64 [B], sum 1.
        """
        shared = rows.ndim == 2
        self._weights = weights
        self._equal = float(weights[0]) if np.ptp(weights) == 0 else None
        B, F = rows.shape[-2:]
        self._B = B
        self.bits = np.empty((len(bins), F, -(-B // 64)), np.uint64)  # [N, F, w]
        for f in range(F):
            values = rows[None, :, f] if shared else rows[:, :, f]
            self.bits[:, f] = _words(values == bins[:, f, None])

    def put(
        self, rows: np.ndarray, f: int, theirs: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> None:
        """Stores, for column f of the instances `rows` int [n], which rows lie in the bins low ..
        high.

        theirs: int32 [B], the bins of the rows that all instances share; low, high int32 [n].
        """
        self.bits[rows, f] = _words((low[:, None] <= theirs) & (theirs <= high[:, None]))

    def supported(self) -> np.ndarray:
        """Whether any row is in the instance's bin; bool [N, F]."""
        return self.bits.any(axis=2)

    def satisfied(self, rows: np.ndarray, rules: np.ndarray) -> np.ndarray:
        """Rows that satisfy rules bool [n, A, F] of the instances `rows`; uint64 [n, A, w]."""
        n, A, F = rules.shape
        words = np.full((n, A, self.bits.shape[2]), ~np.uint64(0))
        for f in np.flatnonzero(rules.any(axis=(0, 1))):
            bits = self.bits[rows, f][:, None]
            np.bitwise_and(words, bits, out=words, where=rules[:, :, f, None])
        words[..., -1] &= self._tail
        return words

    def of(self, rows: np.ndarray, rules: np.ndarray) -> np.ndarray:
        """The weighted share of rows that satisfy the rules; float64 [n, A]."""
        words = self.satisfied(rows, rules)
        if self._equal is not None:
            return np.bitwise_count(words).sum(axis=2, dtype=np.int64) / self._B
        return self.share(self.flags(words))

    def share(self, flags: np.ndarray) -> np.ndarray:
        """The weighted share of the rows that are flagged; float64 [...] of bool [..., B]."""
        if self._equal is not None:
            return np.count_nonzero(flags, axis=-1) / self._B
        return without_last_bits(flags @ self._weights)

    def flags(self, words: np.ndarray) -> np.ndarray:
        """bool [..., B] of words uint64 [..., w]."""
        bytes_ = np.ascontiguousarray(words).view(np.uint8)
        return np.unpackbits(bytes_, axis=-1, bitorder="little", count=self._B).astype(bool)

    @property
    def _tail(self) -> np.uint64:
        """The bits of the last word that belong to rows."""
        used = self._B - 64 * (self.bits.shape[2] - 1)
        return np.uint64((1 << used) - 1)


def without_last_bits(sums: np.ndarray) -> np.ndarray:
    """Sums of weights without the last bits, in which equal sums may differ.

    The sum of all weights is then exactly 1, and 0.95 reaches a threshold of 0.95.
    """
    return np.round(sums, SETTLED)


def reaching(threshold: float) -> float:
    """The smallest mean that reaches a threshold, allowing for rounding."""
    return min(threshold, round(threshold, SETTLED))


def _words(holds: np.ndarray) -> np.ndarray:
    """bool [N, B] as uint64 [N, ceil(B / 64)]."""
    N, B = holds.shape
    padded = np.zeros((N, -(-B // 64) * 64), bool)
    padded[:, :B] = holds
    return np.packbits(padded, axis=1, bitorder="little").view("<u8")
