"""All cases by name, in the order in which they run; those with names for numbers come last."""

from __future__ import annotations

from bench.cases import (
    aec,
    amortized,
    anchors,
    background,
    certain,
    certainty,
    coming_from,
    derivatives,
    estimators,
    exact,
    federated,
    gpu,
    gpu_captum,
    gradients,
    growth,
    host,
    host_share,
    interactions,
    kills,
    leverage,
    networks,
    process,
    qii,
    sampled,
    stream,
    structures,
    sweeps,
    walk,
    wire,
)
from bench.frame import Case

NUMBERED = (
    *exact.CASES,
    *host.CASES,
    *federated.CASES,
    *sampled.CASES,
    *growth.CASES,
    *background.CASES,
    *process.CASES,
    *walk.CASES,
    *aec.CASES,
    *qii.CASES,
    *structures.CASES,
    *gradients.CASES,
    *derivatives.CASES,
    *amortized.CASES,
    *anchors.CASES,
    *networks.CASES,
    *sweeps.CASES,
    *kills.CASES,
    *interactions.CASES,
    *certainty.CASES,
    *host_share.CASES,
    *certain.CASES,
)
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        *sorted(NUMBERED, key=lambda case: int(case.name[1:].partition("-")[0])),
        *qii.MORE,
        *wire.CASES,
        *leverage.CASES,
        *estimators.CASES,
        *stream.CASES,
        *coming_from.CASES,
        *gpu.CASES,
        *gpu_captum.CASES,
    )
}
