"""Tables under sums that cross, and 0/1 tables, with all three outputs: how each is drawn and how far from the truth.

The tables are made up, with a fixed seed. Each is drawn with outputs free, nonnegative and restricted. The restricted
law has half of epsilon, so that all three cost the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.noise import NoiseSource
from tallyveil.products.lattice.run.nearest import nearest_table
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_restricted import choose_restricted
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.integer_subspace.examples import (
    KEY,
    NOTE,
    intersecting_constraints,
    random_orders,
    with_parameters,
)

POLYTOPE_DRAWS: Final = 100
"""Tables of each kind."""

_GEOLEVEL: Final = 251
"""Field geolevel of this exhibit's addresses, next to those of the study's other exhibits."""
_FREE, _ORDER, _RESTRICTED = 0, 1, 2
_SEED: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A made-up table.

    Attributes:
        name: Name in the exhibit.
        system: Its exact sums.
        counts: int64 [n_cells].
        largest: Largest count of a cell; None for no bound.
        law: Law of free noise.
    """

    name: str
    system: ConstraintSystem
    counts: Integers
    largest: int | None
    law: GeneralisedLaplace


def examples() -> Iterator[Example]:
    """Region by sex and one crossing age, the paper's 14 cells, a 0/1 table, and two tables of three attributes."""
    rng, quarter = np.random.default_rng(_SEED), GeneralisedLaplace(Norm.L1, Fraction(1, 4))
    cells = np.arange(24).reshape(2, 3, 4)
    crossing = ConstraintSystem.from_sets(
        [*cells.reshape(6, 4).tolist(), cells[:, :, 1].ravel().tolist()], 24
    )
    yield Example("2 x 3 x 4, an age that crosses", crossing, rng.poisson(8, 24), None, quarter)
    yield Example("14 cells", intersecting_constraints().system, rng.poisson(4, 14), None, quarter)
    yield Example(
        "8 x 8, 0/1", lines(8, 8), rng.integers(0, 2, 64), 1, GeneralisedLaplace(Norm.L1, Fraction(1))
    )
    sparse = (rng.random(216) < 1 / 6).astype(np.int64)
    yield Example("6 x 6 x 6, sparse", lines(6, 6, 6), sparse, None, GeneralisedLaplace(Norm.L2, Fraction(1)))
    dense = rng.poisson(50, 216)
    yield Example("6 x 6 x 6, dense", lines(6, 6, 6), dense, None, GeneralisedLaplace(Norm.L2, Fraction(1)))


def lines(*shape: int) -> ConstraintSystem:
    """All sums over one attribute: both margins of two attributes, all two-way margins of three."""
    cells = np.arange(np.prod(shape)).reshape(shape)
    sets = [
        row for axis, n in enumerate(shape) for row in np.moveaxis(cells, axis, -1).reshape(-1, n).tolist()
    ]
    return ConstraintSystem.from_sets(sets, cells.size)


def polytopes(inputs: StudyInputs) -> Findings:
    """How each kind of table is drawn, and how far it is from the truth."""
    return Findings(
        tables={"polytopes": pl.concat([_drawn(example) for example in examples()])},
        notes=(
            f"{POLYTOPE_DRAWS} tables of each kind. The restricted law has half the epsilon of the free one, so that "
            "all three outputs cost the same.",
            NOTE,
        ),
    )


def _drawn(example: Example) -> pl.DataFrame:
    lattice, law, counts = lattice_of(example.system), example.law, example.counts
    choice = choose_sampler(lattice, law)
    if choice.sampler is None:  # all examples have one
        raise RuntimeError(choice.reason)
    source, n = NoiseSource(KEY), counts.size
    free = counts + choice.sampler.draw(NoiseAddress(source, _GEOLEVEL, _FREE), range(POLYTOPE_DRAWS))
    orders = random_orders(_GEOLEVEL, _ORDER, (POLYTOPE_DRAWS, n))
    nearest = [
        nearest_table(table, lattice, example.system.matrix, order, example.largest)
        for table, order in zip(free, orders, strict=True)
    ]
    half = GeneralisedLaplace(law.norm, law.epsilon / 2)
    restricting = choose_restricted(lattice, half, counts, example.largest)
    place = NoiseAddress(source, _GEOLEVEL, _RESTRICTED)
    restricted = counts + restricting.sampler.draw(place, range(POLYTOPE_DRAWS))
    cut = choice.sampler.total_variation
    kinds = (
        ("free", choice.name, free, law, False),
        ("nonnegative", choice.name, np.stack(nearest), law, False),
        ("restricted", restricting.name, restricted, half, True),
    )
    frames = []
    for outputs, sampler, tables, of_kind, limited in kinds:
        errors = np.abs(tables - counts)
        row = {
            "table": example.name,
            "cells": n,
            "dimension": lattice.dimension,
            "outputs": outputs,
            "law": f"{of_kind.norm.value}, epsilon {of_kind.epsilon}",
            "sampler": sampler,
            "steps": restricting.n_steps if limited else None,
            "share_within": None if not limited or restricting.share is None else float(restricting.share),
            "mean_absolute_error": float(errors.mean()),
            "negative_cells": float((tables < 0).sum(axis=1).mean()),
        }
        frame = pl.DataFrame([row], schema_overrides={"steps": pl.Int64, "share_within": pl.Float64})
        frames.append(with_parameters(frame, of_kind, lattice, cut, restricted=limited))
    return pl.concat(frames)
