"""Tables without negative counts: the bias by the size of a count, and the counties of Illinois (Figure 9)."""

from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.noise import NoiseSource
from tallyveil.subspace.constraints import ConstraintSystem, Structure
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil.subspace.nonnegative import draw_restricted, nearest_nonnegative
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.integer_subspace.examples import (
    BOXED_DRAWS,
    EXAMPLES,
    KEY,
    draws_of,
    illinois_populations,
)
from tallyveil_studies.integer_subspace.privacy import NOTE, with_parameters

SIZES: Final = (0, 1, 2, 5, 10, 20, 50, 100)
"""True counts of the made table: the bias of a non-negative count is at 0 and fades with size."""

CELLS_OF_A_SIZE: Final = 8
"""Cells of each size, whose biases are averaged. More would lower the standard error and change the total."""

EPSILON: Final = Fraction(1, 4)
"""For each unit of l1 distance, as in the paper's examples of children and of 14 cells: 0.25."""

NEAREST_DRAWS: Final = 10_000
"""Tables with free noise, then set to the nearest without negative counts."""

RESTRICTED_DRAWS: Final = 200
"""Tables from the restricted law, each of which is drawn alone and takes far longer."""

_GEOLEVEL: Final = 254
"""Field geolevel of this exhibit's addresses; 252 to 255 are those of this study's exhibits beyond its
examples."""

_NOISE, _ORDER, _RESTRICTED = 0, 1, 2


def nonnegative(inputs: StudyInputs) -> Findings:
    """Bias by size on a table with a fixed total, and how many draws change for the counties of Illinois."""
    truth = np.repeat(np.array(SIZES, dtype=np.int64), CELLS_OF_A_SIZE)
    lattice = lattice_of(ConstraintSystem.from_sets([range(truth.size)], truth.size, ["total"]))
    # The restricted law costs twice as much, so it is also drawn at half the epsilon.
    law, half = (GeneralisedLaplace(Norm.L1, epsilon) for epsilon in (EPSILON, EPSILON / 2))
    choice = choose_sampler(lattice, law)
    if choice.sampler is None:  # one sum always has one
        raise RuntimeError(choice.reason)
    noisy = truth + choice.sampler.draw(_address(_NOISE), range(NEAREST_DRAWS))
    nearest = _nearest(noisy, lattice.structure)
    restricted = np.stack(
        [
            draw_restricted(_address(_RESTRICTED + i), truth, lattice.structure, EPSILON)
            for i in range(RESTRICTED_DRAWS)
        ]
    )
    halved = np.stack(
        [
            draw_restricted(
                # Addresses behind those of the first law, so that the two kinds of draws are independent.
                _address(_RESTRICTED + RESTRICTED_DRAWS + i),
                truth,
                lattice.structure,
                EPSILON / 2,
            )
            for i in range(RESTRICTED_DRAWS)
        ]
    )
    kinds = {
        "free": (noisy, law, False),
        "nonnegative": (nearest, law, False),
        "restricted, same law": (restricted, law, True),
        "restricted, same cost": (halved, half, True),
    }
    tables = [
        with_parameters(_by_size(kind, drawn - truth), kind_law, lattice, restricted=limited)
        for kind, (drawn, kind_law, limited) in kinds.items()
    ]
    return Findings(
        tables={"figure-9": pl.concat(tables)},
        notes=(
            f"A table of {truth.size} cells with its total fixed, {CELLS_OF_A_SIZE} of each size; the l1 law with "
            f"epsilon {EPSILON} for each unit of distance. The restricted law costs twice as much as the free one; at "
            f"epsilon {EPSILON / 2} it costs the same.",
            NOTE,
            _illinois(inputs),
        ),
    )


def _illinois(inputs: StudyInputs) -> str:
    populations = illinois_populations(inputs)["pop"].to_numpy()
    noisy = populations + draws_of("Illinois", Norm.L1, BOXED_DRAWS)
    nearest = _nearest(noisy, lattice_of(EXAMPLES["Illinois"]().system).structure)
    changed = int((nearest != noisy).any(axis=1).sum())
    return (
        f"Counties of Illinois (Figure 9): {changed} of {BOXED_DRAWS:,} draws were changed to avoid negative counts "
        "(the paper: none in any county of its states)."
    )


def _nearest(noisy: Integers, structure: Structure) -> Integers:
    words = NoiseSource(KEY).numbers(_GEOLEVEL, _ORDER, range(len(noisy)), 0, noisy.shape[1])
    # A random order of the cells for each draw: among equally near tables a fixed order would favour the same
    # cells.
    orders = np.argsort(np.argsort(words, axis=1), axis=1)
    pairs = zip(noisy, orders, strict=True)
    return np.stack([nearest_nonnegative(table, structure, order) for table, order in pairs])


def _address(query: int) -> NoiseAddress:
    return NoiseAddress(NoiseSource(KEY), _GEOLEVEL, query)


def _by_size(kind: str, errors: Integers) -> pl.DataFrame:
    """Mean and root mean square of the errors by true size, with the standard error of the mean."""
    by_size = errors.reshape(len(errors), len(SIZES), CELLS_OF_A_SIZE)
    means = by_size.mean(axis=2)
    return pl.DataFrame(
        {
            "outputs": [kind] * len(SIZES),
            "size": SIZES,
            "draws": [len(errors)] * len(SIZES),
            "bias": means.mean(axis=0),
            "standard_error": means.std(axis=0, ddof=1) / np.sqrt(len(errors)),
            "root_mean_square": np.sqrt((by_size.astype(np.float64) ** 2).mean(axis=(0, 2))),
        }
    )
