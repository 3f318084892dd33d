"""Refuses, before anything is drawn, noise that is too large for the later computations."""

from collections.abc import Iterable
from typing import Final

from tallyveil.budget.allocation import Allocation
from tallyveil.errors import BudgetError
from tallyveil.noise.address import CELLS, high_word
from tallyveil.noise.key import KEY_BYTES
from tallyveil.noise.laws import Law
from tallyveil.noise.source import NoiseSource
from tallyveil.noise.table import InversionTable
from tallyveil.schema.counts import LARGEST_COUNT
from tallyveil.schema.schema import Schema

MOST_CELLS_OF_NOISE: Final = LARGEST_COUNT
"""Limit on (cells of the schema) x (largest standard deviation of the noise at the root), in records."""


def certify_noise(allocation: Allocation, schema: Schema) -> None:
    """Refuse noise that cannot be drawn, or that is too large for the estimates.

    Raises:
        BudgetError, SolverError, ConfigError: see `refuse_vast_noise` and `certify_laws`.
        GeographyError, SchemaError: there are more geolevels, or queries at one geolevel, than addresses of noise
            can number.
    """
    strategy = allocation.strategy
    for number, geolevel in enumerate(allocation.spine.geolevels):
        high_word(CELLS, number, max(len(strategy.queries(geolevel)) - 1, 0))
    refuse_vast_noise(allocation, schema)
    certify_laws(laws_of(allocation))


def laws_of(allocation: Allocation) -> set[Law]:
    """Every law that a release draws from."""
    strategy = allocation.strategy
    return {
        law
        for geolevel in strategy.geolevels
        for query in strategy.queries(geolevel)
        for law in allocation.laws(geolevel, query).values()
    }


def certify_laws(laws: Iterable[Law]) -> None:
    """Build a noise source, and the table and variance of every law, once, so that failures come before the spend.

    Raises:
        SolverError: the highest precision does not determine the digits of a law.
        ConfigError: this machine stores numbers in a byte order that the noise does not support.
    """
    NoiseSource(bytes(KEY_BYTES))
    for law in set(laws):
        InversionTable.build(law)
        law.variance_float()


def refuse_vast_noise(allocation: Allocation, schema: Schema) -> None:
    """Refuse noise so large that estimates from it could leave the range in which all arithmetic is exact.

    Estimates are not negative. If the root has noise of standard deviation s on each of n possible cells, the noise
    adds roughly n s records to the root's estimate, and every geolevel below sums to the root.

    Raises:
        BudgetError: n s is above 2**32, where n is the number of possible cells, and s the largest standard deviation
            at the root.
    """
    strategy = allocation.strategy
    root = allocation.spine.geolevels[0]
    deviations = [
        law.standard_deviation()
        for query in strategy.queries(root)
        for law in allocation.laws(root, query).values()
    ]
    largest = max(deviations, default=0.0)
    n_cells = schema.n_possible()
    if n_cells * largest > MOST_CELLS_OF_NOISE:
        raise BudgetError(
            f"at {root}, noise of standard deviation {largest:.3g} in each of {n_cells:,} possible cells could "
            f"make the published counts larger by more than {LARGEST_COUNT:,} {schema.unit.many}. Give {root} a "
            "larger share of the budget, or coarsen the schema.",
            code="noise-too-large",
        )
