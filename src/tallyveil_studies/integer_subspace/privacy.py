"""The privacy parameters that stand beside this study's noise: what it costs where two tables are nearest."""

import math
from fractions import Fraction
from typing import Final

import polars as pl

from tallyveil.accounting import Neighbours, compose
from tallyveil.accounting.costs import delta_with_total_variation
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import IntegerSubspaceLaplace
from tallyveil.accounting.guarantee import ALPHA, DELTAS, PrivacyParameters, exact_parameters
from tallyveil.subspace.guarantee import nearest_tables
from tallyveil.subspace.lattice import Lattice, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.integer_subspace.examples import EXAMPLES, sampler_of

NOTE: Final = (
    "Epsilon at three deltas, beta and mu are for the nearest two tables that agree on the invariants, at "
    "`protected_distance`. For two other tables epsilon is at most `epsilon_per_unit` times their distance."
)
_ROOT_UNIT: Final = 10**9  # a root is rounded up to nine decimals


def with_parameters(
    frame: pl.DataFrame,
    law: GeneralisedLaplace,
    lattice: Lattice,
    total_variation: Fraction = Fraction(0),
    *,
    restricted: bool = False,
) -> pl.DataFrame:
    """A table of noise with columns of its privacy parameters.

    Args:
        frame: Statistics of noise from one law.
        law: The law.
        lattice: Its constraints are the invariants.
        total_variation: Bound on the distance of the noise drawn from its law.
        restricted: Whether the law is restricted to tables without negative counts, which doubles epsilon.
    """
    # Stated for the nearest tables, because epsilon grows with the distance.
    distance, event = _nearest(law, lattice, restricted)
    columns = {
        "epsilon_per_unit": float(event.loss / distance),
        "protected_distance": float(distance),
        **_parameters(event, total_variation).to_mapping(),
    }
    return frame.with_columns(pl.lit(value, dtype=pl.Float64).alias(name) for name, value in columns.items())


def nearest_parameters(law: GeneralisedLaplace, lattice: Lattice) -> tuple[Fraction, dict[str, float | None]]:
    """What noise of a law costs between the nearest two tables: epsilon at delta 0, and the privacy parameters."""
    _, event = _nearest(law, lattice, restricted=False)
    return event.loss, _parameters(event, Fraction(0)).to_mapping()


def example_with_parameters(frame: pl.DataFrame, name: str, norm: Norm) -> pl.DataFrame:
    """A table of the noise of one of the paper's examples with columns of its privacy parameters."""
    example = EXAMPLES[name]()
    return with_parameters(
        frame,
        example.law(norm),
        lattice_of(example.system),
        sampler_of(name, norm).total_variation or Fraction(0),
    )


def _nearest(
    law: GeneralisedLaplace, lattice: Lattice, restricted: bool
) -> tuple[Fraction, IntegerSubspaceLaplace]:
    """The distance of the nearest two tables, and the event of noise between them."""
    distance = _nearest_distance(lattice, law)
    names = lattice.system.names
    return distance, IntegerSubspaceLaplace(
        law.epsilon, law.norm.value, distance, names, restricted=restricted
    )


def _parameters(event: IntegerSubspaceLaplace, total_variation: Fraction) -> PrivacyParameters:
    """The parameters of noise within a total variation of its law, which adds to delta and leaves no finite mu."""
    guarantee = compose(event, neighbours=Neighbours.BOUNDED)
    if not total_variation:
        return exact_parameters(guarantee)
    # A law within total variation t of another keeps its epsilon at a larger delta.
    added = Fraction(delta_with_total_variation(event.loss, Fraction(0), total_variation))
    beta = guarantee.beta(ALPHA + total_variation).lower
    return PrivacyParameters(
        {delta: guarantee.epsilon(Fraction(delta) - added).upper for delta in DELTAS},
        fraction_bounds(Fraction(beta) - total_variation).lower,
    )


def _nearest_distance(lattice: Lattice, law: GeneralisedLaplace) -> Fraction:
    """Distance of the nearest two tables in the law's norm. A root that is no fraction is rounded up."""
    size = nearest_tables(lattice, law, Neighbours.BOUNDED).smallest
    if not law.takes_root:
        return Fraction(size)
    # Rounded up in whole numbers: a distance that is too large overstates the cost.
    root = math.isqrt(size * _ROOT_UNIT**2)
    return Fraction(root + (root * root < size * _ROOT_UNIT**2), _ROOT_UNIT)
