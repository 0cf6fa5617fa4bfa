"""What games ask of a model is what `xaijax.models` has."""

from __future__ import annotations

from dataclasses import fields

import pytest

from xaijax.games.asking.asked import Asked, AskedGame
from xaijax.games.asking.questions import Questions
from xaijax.games.game import Game
from xaijax.games.measure.asked_model import Agreement, AskedModel, Comparison, Findings
from xaijax.models.asking.findings import Probe
from xaijax.models.model import Model
from xaijax.models.structure import agreement
from xaijax.models.translations import translated

KEPT = [
    (AskedModel, Model),
    (Findings, Probe),
    (Agreement, agreement.Agreement),
    (Comparison, translated.Comparison),
]
MADE_LATER = {"setting", "codes", "ask", "quantity"}  # attributes that `__init__` sets


def members(kind: type) -> set[str]:
    """Its own names, without Python's."""
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("contract", "kind"), KEPT, ids=lambda one: one.__qualname__)
def test_each_member_of_the_contract_is_there(contract: type, kind: type) -> None:
    assert len(members(contract)) > 0
    assert members(contract) <= set(dir(kind)) | {field.name for field in fields(kind)}


@pytest.mark.parametrize(("contract", "kind"), [(Asked, Questions), (AskedGame, Game)])
def test_questions_and_games_keep_theirs(contract: type, kind: type) -> None:
    assert members(contract) - MADE_LATER <= set(dir(kind))
