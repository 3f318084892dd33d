"""Tables whose invariants are kept exactly, by the samplers of the integer-subspace mechanism.

The invariants are the sum of three cells, or both margins of a table of two rows and three columns. The two tables are
as far apart as is claimed to be protected, and agree on the invariants.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from tests.auditors.drawing.claims import RELEASE_DELTA, claim_of
from tests.auditors.outputs import Claim, Outputs

from tallyveil.accounting import Neighbours, zcdp_to_epsilon
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.subspace import (
    ConstraintSystem,
    GeneralisedGaussian,
    GeneralisedLaplace,
    Lattice,
    LatticeLaw,
    NoiseAddress,
    choose_sampler,
    event_of,
    gaussian_rho,
    lattice_of,
    pair_profile,
)
from tallyveil.subspace.mechanisms import size_of


@dataclass(frozen=True)
class Table:
    """A table and its noise.

    Attributes:
        name: Name of the target.
        system: The invariants.
        law: Law of the noise.
        first, second: The two tables.
        distance: Their distance in the sense of the law.
    """

    name: str
    system: ConstraintSystem
    law: LatticeLaw
    first: tuple[int, ...]
    second: tuple[int, ...]
    distance: int


SUM = ConstraintSystem.from_sets([[0, 1, 2]], 3)
MARGINS = ConstraintSystem.from_sets([[0, 1, 2], [3, 4, 5], [0, 3], [1, 4], [2, 5]], 6)

TABLES = (
    Table("sum-laplace", SUM, GeneralisedLaplace("l1", Fraction(1, 2)), (1, 0, 4), (0, 1, 4), 2),
    Table("sum-gaussian", SUM, GeneralisedGaussian(Fraction(2)), (1, 0, 4), (0, 1, 4), 2),
    Table(
        "margins-gaussian",
        MARGINS,
        GeneralisedGaussian(Fraction(3)),
        (1, 0, 2, 0, 1, 3),
        (0, 1, 2, 1, 0, 3),
        4,
    ),
)


def draw(number: int) -> Iterator[Outputs]:
    """The outputs of every table, so many on each side."""
    for table in TABLES:
        lattice = lattice_of(table.system)
        sampler = choose_sampler(lattice, table.law).sampler
        source = NoiseSource(insecure_key(f"auditors: {table.name}"))
        truths = np.array(table.first), np.array(table.second)
        rows = [
            truth + sampler.draw(NoiseAddress(source, side, 0), range(number))
            for side, truth in enumerate(truths)
        ]
        rate = float(table.law.rate)
        scores = [
            rate * (size_of(table.law, values - truths[0]) - size_of(table.law, values - truths[1]))
            for values in rows
        ]
        yield Outputs(table.name, rows[0], rows[1], scores[0], scores[1], _claim(table, lattice))


def _claim(table: Table, lattice: Lattice) -> Claim:
    """The claim of the event; with Gaussian noise, that of this pair of tables, whose profile is exact."""
    delta = Fraction(1, 100)
    if isinstance(table.law, GeneralisedLaplace):
        event = event_of(table.law, lattice, table.distance)
        epsilon = table.law.epsilon * table.distance
        return claim_of(event, neighbours=Neighbours.BOUNDED, delta=delta, epsilon=epsilon)
    profile = pair_profile(lattice, table.law, np.array(table.second) - np.array(table.first))
    rho = gaussian_rho(table.law, table.distance)
    steps = np.linspace(0, zcdp_to_epsilon(rho, delta), 400)
    deltas = np.array([profile.delta(Fraction(one)).upper for one in steps.tolist()])
    reported = float(steps[np.argmax(deltas <= float(delta))])
    kept = slice(0, int(np.argmax(deltas <= float(delta))) + 1, 8)
    at_release = zcdp_to_epsilon(rho, RELEASE_DELTA)
    numbers = float(delta), reported, math.inf, float(2 * rho), math.inf, at_release
    return Claim(steps[kept], deltas[kept], *numbers)
