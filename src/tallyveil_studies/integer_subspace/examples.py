"""The paper's examples with names for their cells, and exact draws of their noise, which are the same every time."""

from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.report.drawing import Box, BoxPanel, BoxPlot, BoxSeries, Role
from tallyveil.storage.read import read_table
from tallyveil.subspace.exact.choose_sampler import SamplerChoice, choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import Norm
from tallyveil_studies.exhibit import StudyInputs
from tallyveil_studies.integer_subspace.published_tables import (
    ChainExample,
    delinquent_children,
    illinois_counties,
    intersecting_constraints,
)

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
