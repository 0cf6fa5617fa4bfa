"""The facts that a release needs of an explanation: read from its provenance, or refused.

Only public facts are read here; no value, and no row. Letters: P players, K scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import PrivacyError
from xaijax.privacy.sensitivity import QUANTITIES
from xaijax.results.explanation import Explanation
from xaijax.results.interactions import Interactions
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.wording import named

# Facts without which no sensitivity can be proved.
NEEDED = (
    "quantity signed outcome bounds difference index intervention pool_rows whose_pool "
    "pool_weights data_rows data_weights members rest instances explained players "
    "positive_given scheme samples subsample"
).split()

# Facts in the released copy about how it was made: none of them depends on a private row. The owner
# of the pool depends on the arguments passed, not on their values.
PUBLIC = (
    "method quantity quantity_words signed outcome positive bounds difference index "
    "intervention pool_rows pool_is_data pool_weights data_rows data_weights members rest "
    "subsample instances players player_columns"
).split()

MOST_PLAYERS = 20


@dataclass(frozen=True)
class Facts:
    """The provenance, as read."""

    quantity: str
    outcome: str  # "label" | "score" | "proba"
    difference: str
    signed: bool
    unary: bool
    weights: tuple[float, ...] | None  # of one set of size s [P]; None: unary, or probabilities
    games: int  # N
    players: int
    data_rows: int
    members: int | None
    rest: int | None
    pool_rows: int
    public_pool: bool
    weighted: bool


def facts_of(explanation: Any) -> Facts:
    """Reads the provenance; raises if there is no bound, or if facts are missing."""
    if isinstance(explanation, PrivateExplanation):
        raise PrivacyError("explanation is a private copy already; it can be shown as it is.")
    if isinstance(explanation, Interactions):
        raise PrivacyError(
            "explanation: interactions cannot be released: a bound is proved for the values of "
            "single players only. Release what QII(...).explain or .unary returned."
        )
    wanted = "the Explanation that QII(...).explain or .unary returned"
    remedy = (
        " What influence, marginal and game return cannot be released: for a set S say "
        "players={'S': [...]} and unary()."
    )
    checks.instance(explanation, "explanation", Explanation, wanted, remedy)
    record = explanation.provenance
    _refuse_method(explanation, record)
    missing = [name for name in NEEDED if name not in record]
    if missing:
        raise _refused(
            f"its provenance does not say {', '.join(map(repr, missing))}. Release what xaijax.QII "
            "of this version returned"
        )
    _refuse_rows(record)
    if not np.isfinite(explanation.values).all():
        raise _refused("it holds values that are not finite")
    members = record["members"]
    return Facts(
        quantity=record["quantity"],
        outcome=record["outcome"],
        difference=record["difference"],
        signed=bool(record["signed"]),
        unary=named(explanation.kind).alone,
        weights=_weights(record),
        games=int(record["instances"]),
        players=int(record["players"]),
        data_rows=int(record["data_rows"]),
        members=None if members is None else int(members),
        rest=None if record["rest"] is None else int(record["rest"]),
        pool_rows=int(record["pool_rows"]),
        public_pool=record["whose_pool"] == "other",
        weighted=record["data_weights"] == "given" or record["pool_weights"] == "given",
    )


def public_facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """The public facts about how a released copy was made."""
    facts = {name: _plain(record[name]) for name in PUBLIC if name in record}
    facts["pool_is_data"] = record["whose_pool"] == "data"
    if not record["positive_given"]:
        facts["positive"] = 1  # the default, the last label seen, depends on the data
    return facts


def _plain(value: Any) -> Any:
    """The value in a form that JSON keeps."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def _refused(reason: str) -> PrivacyError:
    return PrivacyError(f"explanation cannot be released: {reason}.")


def _refuse_method(explanation: Explanation, record: Mapping[str, Any]) -> None:
    if record.get("method") != "QII":
        raise _refused(f"bounds are proved for xaijax.QII, not for method={record.get('method')!r}")
    if named(record.get("index")).simple or named(explanation.kind).simple:
        raise _refused("the Deegan-Packel index jumps by up to 1 for a record. Say index='shapley'")
    difference = record.get("difference")
    if difference in ("kl", "js"):
        raise _refused(
            f"difference={difference!r} has no bound. Say 'tv', 'l1', 'l2', 'linf' or 'subtract'"
        )
    if difference not in ("subtract", "l1", "tv", "l2", "linf", None):
        raise _refused("its difference is your own function, and no bound is proved for it")
    if record.get("intervention") == "sampler":
        raise _refused("its donors came from your own sampler, and no bound is proved for it")
    if record.get("samples") is not None or record.get("scheme", "exact") != "exact":
        raise _refused(
            "it was drawn with replacement, so one record may be all of it. Say samples=None, on "
            "xaijax.privacy.subsample(data, rate) where that is too large"
        )
    if not explanation.exact or explanation.std_errors is not None:
        raise _refused("it is not exact. Say samples=None and a deterministic model")
    quantity = record.get("quantity")
    if quantity == "ratio":
        raise _refused("quantity='ratio' divides by a rate that may be 0. Say 'disparity'")
    if quantity is not None and quantity not in QUANTITIES:
        raise _refused("its quantity is your own, and no bound is proved for it")
    if "selected_output" in record:
        raise _refused("an output was selected. Release what xaijax.QII returned, whole")


def _refuse_rows(record: Mapping[str, Any]) -> None:
    if record["explained"] in ("data", "part"):
        raise _refused(
            "it explains private rows themselves (X= was left out, or is or shares the data). "
            "Explain people who are public, or say quantity='rate' or 'average'"
        )
    if record["whose_pool"] == "part":
        raise _refused(
            "its pool= shares memory with the data (or with all rows of its subsample). Leave it "
            "out, or give rows that are public"
        )
    if int(record["players"]) > MOST_PLAYERS:
        raise _refused(f"it has {record['players']} players; at most {MOST_PLAYERS} are counted")


def _weights(record: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Weights by the number of players replaced; None: unary, or Pr[S] (which is not recorded)."""
    if record["index"] == "none":
        return None
    weights = record.get("index_weights")
    if isinstance(weights, list | tuple) and len(weights) == record["players"]:
        return tuple(float(weight) for weight in weights)
    if isinstance(weights, Mapping) and record["index"] == "Pr[S]":
        return None
    raise _refused("its provenance does not say the weights of its index ('index_weights')")
