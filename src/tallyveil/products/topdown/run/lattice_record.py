"""Describe lattice noise as plain data for manifests: the sampler, the guarantee, and the spread of the noise."""

from fractions import Fraction
from typing import Any, Final

import numpy as np

from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.declared import mapping_of
from tallyveil.measurements.store import drawn_name
from tallyveil.plans.lattice_draws import SubspaceDraw
from tallyveil.plans.release import ReleasePlan
from tallyveil.subspace.mechanisms import GeneralisedGaussian
from tallyveil.subspace.noise_plan import PUBLIC_KEY, NoisePlan, guarantee_record

MOST_DRAWS: Final = 10_000
LEAST_DRAWS: Final = 100
"""Least number of draws from which a standard deviation is estimated."""

_CELLS_LOOKED_AT: Final = 1 << 24


def noise_record(noise: NoisePlan) -> dict[str, Any]:
    """The lattice, the sampler, and the distance of a chain from its target law, as plain data."""
    lattice = noise.lattice
    record: dict[str, Any] = {
        "structure": lattice.structure.kind.value,
        "cells": lattice.n_cells,
        "dimension": lattice.dimension,
        "basis": lattice.basis_kind,
        "notes": list(lattice.notes),
        "sampler": noise.name,
        "reason": noise.reason,
        "total_variation": fraction_bounds(noise.total_variation).upper,
    }
    if noise.chain is not None:
        bound = noise.chain.bound
        record["chain"] = {
            "moves": noise.chain.settings.moves,
            "sweeps": bound.sweeps,
            "lag": bound.lag,
            "pairs": bound.pairs,
            "estimate": bound.estimate,
            "standard_error": bound.standard_error,
            "confidence": bound.confidence,
            "measured": bound.measured,
            "extrapolated": bound.extrapolated,
            "used": "extrapolated" if noise.chain.settings.extrapolate else "measured",
            "allowed_delta": str(noise.chain.settings.allowed_delta),
        }
    return record


def drawn_record(plan: ReleasePlan, draw: SubspaceDraw) -> dict[str, Any]:
    """One `[[subspace]]` of a release: the drawn query, the noise law, the sampler, the guarantee and the invariants.

    Args:
        plan: Plan of the release.
        draw: The draw, prepared without data.
    Privacy: computed from public inputs and from simulated noise with a public key, never from the published noise.
    """
    neighbours, law = plan.strategy.neighbours, draw.noise.law
    moved = neighbours.answers_moved
    if isinstance(law, GeneralisedGaussian):
        stated = {"kind": "generalised Gaussian", "variance": str(law.variance)}
    else:
        stated = {"kind": "generalised Laplace", "norm": law.norm.value, "epsilon": str(law.epsilon)}
    names = draw.noise.lattice.system.names
    return {
        **mapping_of(draw.item),
        "path": drawn_name(draw.item.geolevel, draw.item.query),
        "law": stated,
        "privacy": {
            **guarantee_record(draw.noise, Fraction(moved), plan.delta, neighbours),
            "invariants": list(names),
        },
        "noise": {**noise_record(draw.noise), "spread": _spread(draw)},
    }


def _spread(draw: SubspaceDraw) -> dict[str, Any] | None:
    """Standard deviation of the noise, from simulated draws; None if draws are too slow to make many."""
    cells = draw.noise.lattice.n_cells
    draws = min(MOST_DRAWS, int(_CELLS_LOOKED_AT / (cells * draw.expected_trials)))
    if draws < LEAST_DRAWS:
        return None
    vectors = draw.noise.draw(PUBLIC_KEY, range(draws))
    # The mean is zero by symmetry, so it is not estimated.
    deviations = np.sqrt((vectors.astype(np.float64) ** 2).mean(axis=0))
    return {
        "draws": draws,
        "standard_deviation": {
            "least": float(deviations.min()),
            "median": float(np.median(deviations)),
            "greatest": float(deviations.max()),
        },
        "mean_absolute": float(np.abs(vectors).mean()),
    }
