"""Words the statements of a QII report about its numbers, from its public facts.

Each sentence holds for the quantity, the intervention, the difference and the index that were used:
only Shapley values add up to the difference, only "subtract" has a direction, and Deegan-Packel has
neither a direction nor an amount. `named` has the properties of an index, here also for plots,
reports and privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xaijax.players.index import named as named
from xaijax.results.explanation import Explanation
from xaijax.results.private_explanation import PrivateExplanation

DIFFERENCES = {
    "l1": "the sum of absolute differences",
    "l2": "the root of the sum of squared differences",
    "linf": "the largest absolute difference",
    "tv": "the total variation distance",
    "kl": "the Kullback-Leibler divergence KL(as it is || inputs replaced), in nats,",
    "js": "the Jensen-Shannon divergence, in nats,",
}
_ON_TOP = "its effect on top of other replaced inputs"


def is_distance(explanation: Explanation | PrivateExplanation) -> bool:
    """Whether influences are shares of a distance."""
    return not named(explanation.kind).simple and _difference(explanation) != "subtract"


def _difference(explanation: Explanation | PrivateExplanation) -> str:
    return explanation.provenance.get("difference", "subtract")


def words(explanation: Explanation) -> list[str]:
    """Describes the quantity, the intervention, the difference and the index, a sentence each."""
    facts = explanation.provenance
    sentences = [
        f"What was measured: {measured(facts, len(explanation))}.",
        f"What was changed: {changed(facts, explanation.kind)}.",
    ]
    name = _difference(explanation)
    if name != "subtract":
        what = DIFFERENCES.get(name, f"the difference {name} that was given,")
        size = " It says how far, not which way." if name in DIFFERENCES else ""
        sentences.append(f"How far apart two answers are: {what} between them.{size}")
    return [*sentences, _index(explanation)]


def measured(facts: Mapping[str, Any], people: int = 1) -> str:
    """The quantity of interest of a person, for the chosen outcome."""
    who = "this person" if people == 1 else "each of the two people"
    quantity, outcome = facts.get("quantity"), facts.get("outcome")
    positive = facts.get("positive")
    if quantity in ("individual", "actual") and outcome == "proba":
        chosen = facts.get("selected_output")
        what = "the probabilities of all classes" if chosen is None else f"the chance of {chosen!s}"
        return f"{what} for {who}, as the model gives it"
    if quantity == "individual" and outcome == "score":
        low, high = facts.get("bounds", (0, 1))
        of = "" if positive is None else f" of {positive!s}"
        return f"the model's score{of} for {who}, cut to {low:g} to {high:g}"
    if quantity == "individual":
        return (
            f"the chance of the positive outcome for {who} ({positive!s} is the positive outcome)"
        )
    if quantity == "actual":
        return f"the chance that {who} keeps the outcome received"
    return facts.get("quantity_words") or f"the quantity {quantity}, for {who}"


def changed(facts: Mapping[str, Any], kind: str) -> str:
    """The intervention: what replaced the inputs, and which of them together."""
    alone = named(kind).alone
    start = "each input was replaced by itself, by that of" if alone else (
        "inputs were replaced by those of"
    )  # fmt: skip
    together = "" if alone else ", several of them together"
    if facts.get("intervention") == "baseline":
        return f"{start} one chosen row, another person or a reference{together}"
    if facts.get("intervention") == "function":
        return f"{start} the baseline that a given function makes of each row{together}"
    if facts.get("intervention") == "sampler":
        return f"{start} rows that a given sampler drew{together} and from one and the same row"
    whose = "the data" if facts.get("pool_is_data") else "a pool"
    rows = f"{facts.get('pool_rows', 0):,} in {whose}"
    person = f"a random person of {rows}"
    if facts.get("pool_weights") == "given":
        person = f"a person drawn from {rows} by given weights"
    same = "" if alone else " and from one and the same person"
    return f"{start} {person}{together}{same}"


def _index(explanation: Explanation) -> str:
    index = named(explanation.kind)
    no_sum = "Such influences need not add up to what replacing all inputs changes."
    if index.alone:
        return f"Each input was replaced alone. Such influences overlap: {no_sum[5:]}"
    if index.simple:
        return (
            f"Each input's number is its {index.value}: its part in the smallest sets of "
            f"inputs whose replacement {_crosses(explanation.provenance)}. It has no direction and "
            "is no amount; the indices add up to 1, or are all 0 where no set does that."
        )
    how = f"its {index.value}: {_ON_TOP}, averaged over {index.average}"
    if not index.average:
        how = (
            f"the sum of {_ON_TOP}, each set of them with the weight that the index {index.name} "
            "gives it"
        )
    if not index.efficient:
        return f"Each input's influence is {how}. {no_sum}"
    but = "" if explanation.exact else ", but for the error of sampling"
    return (
        f"Each input's share is {how}. The shares of all inputs add up to what replacing all of "
        f"them changes{but}."
    )


def _crosses(facts: Mapping[str, Any]) -> str:
    """The effect of a winning set."""
    threshold = facts.get("threshold")
    by = "by 1" if threshold is None else f"by at least {threshold:g}"
    if facts.get("difference") != "subtract":
        return f"changes what was measured {by}"
    if facts.get("absolute"):
        return f"moves what was measured {by}, up or down"
    return f"lowers what was measured {by}"


def effect(explanation: Explanation, value: float) -> str:
    """The effect of one input, to follow its name."""
    size, index = f"{abs(value):.3g}", named(explanation.kind)
    if index.simple:
        return f"has an index of {size}"
    if is_distance(explanation):
        if index.alone:
            return f"replaced alone makes a difference of {value:.3g}"
        return (
            f"adds {size} to the difference" if value > 0 else f"takes {size} from the difference"
        )
    way = "raises" if value > 0 else "lowers"
    if index.alone or index.average:  # a change, or a mean of changes
        return f"{way} it by {size}"
    return f"{way} it, with an influence of {value:.3g}"


def nothing(explanation: Explanation) -> str:
    """The sentence for values that are all 0."""
    if named(explanation.kind).simple:
        return "No set of inputs does that."
    return "No input has any influence." if explanation.exact else "No draw showed any influence."


def both_answers(
    explanation: Explanation, quantity: float | None, base: float, total: Any
) -> str | None:
    """The answers with nothing and with all inputs replaced; None if they are not known.

    quantity: with nothing replaced; base: with all inputs replaced, 0 for distances; total: the
    distance between the two, if it is known.
    """
    facts = explanation.provenance
    if named(explanation.kind).simple:
        return None
    if is_distance(explanation):
        if total is None:
            return None
        sentence = f"With all inputs replaced the difference is {total:.3g}."
    elif quantity is None:
        return None
    else:
        about = "about " if facts.get("intervention") == "sampler" else ""
        sentence = f"As it is: {quantity:.3g}. With all inputs replaced: {about}{base:.3g}."
    if not named(explanation.kind).efficient:
        return f"{sentence} The influences below need not add up to the difference."
    if explanation.shape[1] != facts.get("players"):
        return f"{sentence} Not all inputs are shown, so that those below do not add up to it."
    but = "" if explanation.exact else ", but for the error of sampling"
    return f"{sentence} The influences of all inputs add up to the difference{but}."


def to_the_right(explanation: Explanation) -> str:
    """The explanation of how to read the bars."""
    if named(explanation.kind).simple:
        return "The longer the bar, the larger the input's part."
    if is_distance(explanation):
        return "To the right: the input adds to the difference."
    others = {
        "baseline": "the chosen row's",
        "function": "its own baseline's",
        "sampler": "a drawn row's",
    }
    other = others.get(explanation.provenance.get("intervention", ""), "another person's")
    return f"To the right: the input as it is raises what was measured, compared with {other}."


def axis(explanation: Explanation | PrivateExplanation) -> str:
    """The same in a few words, for an axis."""
    if named(explanation.kind).simple:
        return ""
    if is_distance(explanation):
        return ": right adds to the difference, left takes from it"
    return ": left lowers, right raises"
