"""The paper's three examples, with names for their cells, exact draws of their noise, and what it costs.

Source: Dharangutte, Gao, Gong, Yu 2022, section 5 and appendix E. Draws are the same every time. The privacy
parameters stand where two tables are nearest.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
import polars as pl

from tallyveil.accounting import Neighbours, compose
from tallyveil.accounting.costs import delta_with_total_variation
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import IntegerSubspaceLaplace
from tallyveil.accounting.guarantee import ALPHA, DELTAS, PrivacyParameters, exact_parameters
from tallyveil.arrays import Integers
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.report.drawing import Box, BoxPanel, BoxPlot, BoxSeries, Role
from tallyveil.storage.read import read_table
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import SamplerChoice, choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.guarantee import nearest_tables
from tallyveil.subspace.lattice import Lattice, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.exhibit import StudyInputs

DELINQUENT_CHILDREN: Final = ((15, 1, 3, 1), (20, 10, 10, 15), (3, 10, 10, 2), (12, 14, 7, 2))
"""Children by county (Alpha, Beta, Gamma, Delta) and education of the household head (low to very high).

Fictitious data; Federal Committee on Statistical Methodology 2005, Statistical Policy Working Paper 22, Table 4. The
paper prints 35 as the total of Gamma, whose cells sum to 25. The other totals agree with 25.
"""

ILLINOIS_COUNTIES: Final = 102
"""Number of cells of the example of one fixed total."""
ILLINOIS_EPSILON: Final = Fraction(24, 125)
"""0.192 = 4 x 0.16 x 0.3: total, share of counties, share of the population query (vintage of November 2020)."""

EXAMPLE_EPSILON: Final = Fraction(1, 4)
"""Epsilon of both Laplace laws in the other examples."""


@dataclass(frozen=True, slots=True)
class ChainExample:
    """One of the paper's examples.

    Attributes:
        name: Name for messages and files.
        system: The invariants.
        epsilon: Epsilon of both Laplace laws.
        iterations: For each norm, the paper's number of iterations to convergence. For Illinois it is the l1 burn-in,
            since the paper shows neither its total variation nor its l2 law.
    """

    name: str
    system: ConstraintSystem
    epsilon: Fraction
    iterations: tuple[tuple[Norm, int], ...]

    def law(self, norm: Norm) -> GeneralisedLaplace:
        """The Laplace law with this norm."""
        return GeneralisedLaplace(norm, self.epsilon)


def intersecting_constraints() -> ChainExample:
    """Three sums over 14 records; every intersection of their sets contains some records.

    The paper only shows a picture of three overlapping sets. This example has two records in each of the seven regions
    of three sets in general position, which makes 14. Each sum has 8 records, every two sums share 4, and all three
    share 2. Records 2 r and 2 r + 1 belong to the sums whose bits are set in r + 1.
    """
    sets = [[record for record in range(14) if (record // 2 + 1) >> bit & 1] for bit in range(3)]
    system = ConstraintSystem.from_sets(sets, 14, ("A1", "A2", "A3"))
    paper = ((Norm.L1, 10**5), (Norm.L2, 10**6))
    return ChainExample("intersecting", system, EXAMPLE_EPSILON, paper)


def delinquent_children() -> ChainExample:
    """Row and column sums of the 4 by 4 table. Cells are ordered by county, then education."""
    rows = [[4 * i + j for j in range(4)] for i in range(4)]
    columns = [[4 * i + j for i in range(4)] for j in range(4)]
    names = ("Alpha", "Beta", "Gamma", "Delta", "Low", "Medium", "High", "Very High")
    system = ConstraintSystem.from_sets(rows + columns, 16, names)
    paper = ((Norm.L1, 10**4), (Norm.L2, 10**5))
    return ChainExample("delinquent children", system, EXAMPLE_EPSILON, paper)


def random_orders(geolevel: int, query: int, shape: tuple[int, int]) -> Integers:
    """A random order of the cells for each draw: among equally near tables a fixed one would favour the same cells.

    Args:
        geolevel, query: Place of the random numbers in the address space.
        shape: Number of draws and of cells.
    Returns:
        The rank of each cell; int64, of this shape.
    """
    words = NoiseSource(KEY).numbers(geolevel, query, range(shape[0]), 0, shape[1])
    return np.argsort(np.argsort(words, axis=1), axis=1)


def illinois_counties() -> ChainExample:
    """The population of Illinois, by 102 counties."""
    system = ConstraintSystem.from_sets([range(ILLINOIS_COUNTIES)], ILLINOIS_COUNTIES, ("Illinois",))
    return ChainExample("Illinois counties", system, ILLINOIS_EPSILON, ((Norm.L1, 10**6),))


KEY: Final = insecure_key("tallyveil study integer-subspace")
"""A public key is enough, because noise here protects nobody: each table is public or fictitious, or there is none."""

BOXED_DRAWS: Final = 1000
"""Draws of each box: 1,000, as in Figures 2, 5 and 7. The whiskers of twice as many would be a little longer."""

COUNTIES: Final = ("Alpha", "Beta", "Gamma", "Delta")
EDUCATION: Final = ("Low", "Medium", "High", "Very High")
COUNTY_FILE: Final = "vtd/us_2010_county_pop_hu.csv"
ILLINOIS: Final = "17"

EXAMPLES: Final[dict[str, Callable[[], ChainExample]]] = {
    "intersecting": intersecting_constraints,
    "children": delinquent_children,
    "Illinois": illinois_counties,
}
NORMS: Final = (Norm.L1, Norm.L2)


@cache
def sampler_of(name: str, norm: Norm) -> SamplerChoice:
    """The exact sampler of an example."""
    example = EXAMPLES[name]()
    return choose_sampler(lattice_of(example.system), example.law(norm))


def draws_of(name: str, norm: Norm, n: int) -> Integers:
    """Exact draws, int64 [n, n_cells]; the first ones are the same for every n."""
    choice = sampler_of(name, norm)
    if choice.sampler is None:  # all of the paper's examples have one
        raise RuntimeError(choice.reason)
    # Each example and norm has its own query number, so that no two share a draw.
    number = list(EXAMPLES).index(name) * len(NORMS) + NORMS.index(norm)
    return choice.sampler.draw(NoiseAddress(NoiseSource(KEY), 0, number), range(n))


def cell_names(name: str) -> tuple[str, ...]:
    """Names of an example's cells."""
    if name == "children":
        return tuple(f"{county}, {level}" for county in COUNTIES for level in EDUCATION)
    return tuple(str(cell + 1) for cell in range(EXAMPLES[name]().system.n_cells))


def illinois_populations(inputs: StudyInputs) -> pl.DataFrame:
    """Counties of Illinois by population, smallest first: `name` and `pop` as published for 2010.

    Raises:
        MissingDataError: the file is missing.
    """
    return county_populations(inputs).filter(state=ILLINOIS).select("name", "pop")


def county_populations(inputs: StudyInputs) -> pl.DataFrame:
    """Counties of all States, smallest first: `state` (its code), `name` and `pop` as published for 2010.

    Raises:
        MissingDataError: the file is missing.
    """
    (path,) = inputs.files("counties by population", (COUNTY_FILE,))
    table = read_table(path, ["fips", "name", "pop"], "county populations")
    # The first two digits of a county's code.
    state = pl.col("fips").str.slice(0, 2).alias("state")
    return table.select(state, "name", pl.col("pop").cast(pl.Int64)).sort("pop")


def boxed(draws: Integers) -> tuple[Box, ...]:
    """A box for each cell, with the first draw marked separately."""
    # Least, quartiles and greatest, cell by cell.
    five = np.quantile(draws, [0, 0.25, 0.5, 0.75, 1], axis=0).T.tolist()
    return tuple(
        Box(low, first, middle, third, high, float(single))
        for (low, first, middle, third, high), single in zip(five, draws[0].tolist(), strict=True)
    )


def box_plot(by_norm: dict[str, dict[str, Integers]], places: tuple[str, ...], x_label: str) -> BoxPlot:
    """Panels of boxes: titles to labels to draws; the first label is ours."""
    roles = (Role.OURS, Role.PUBLISHED)
    panels = tuple(
        BoxPanel(
            title,
            tuple(
                BoxSeries(label, role, boxed(draws))
                for (label, draws), role in zip(series.items(), roles, strict=False)
            ),
        )
        for title, series in by_norm.items()
    )
    return BoxPlot(places, panels, x_label, "noise")


def summary(draws: Integers, names: tuple[str, ...], **columns: object) -> pl.DataFrame:
    """Five summary numbers, mean and standard deviation of each cell."""
    boxes = boxed(draws)
    return pl.DataFrame(
        {
            **{name: pl.Series([value] * len(names)) for name, value in columns.items()},
            "cell": list(names),
            "one_draw": [box.single for box in boxes],
            "mean": draws.mean(axis=0),
            "standard_deviation": draws.std(axis=0, ddof=1),
            "least": [box.low for box in boxes],
            "first_quartile": [box.first for box in boxes],
            "median": [box.middle for box in boxes],
            "third_quartile": [box.third for box in boxes],
            "greatest": [box.high for box in boxes],
        }
    )


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
