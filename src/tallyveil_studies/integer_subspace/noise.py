"""Noise tables and box plots: Tables 1 and 3, Figures 2, 5, 7 and our half of 8; unbiasedness and margins.

Figure 8 has the counties of every State under its exact total. Its other half, errors of the demonstration data of
November 2020, is not here.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.noise import NoiseSource
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import Lattice, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.integer_subspace.examples import (
    BOXED_DRAWS,
    COUNTIES,
    EDUCATION,
    EXAMPLES,
    KEY,
    NORMS,
    box_plot,
    cell_names,
    county_populations,
    draws_of,
    illinois_populations,
    sampler_of,
    summary,
)
from tallyveil_studies.integer_subspace.privacy import NOTE, example_with_parameters, with_parameters
from tallyveil_studies.integer_subspace.published_tables import ILLINOIS_EPSILON

CHECKED_DRAWS: Final = 100_000
"""Draws for the means: their standard errors are then 0.3 % of a standard deviation. With a quarter as many
they double."""


def children_l1(_: StudyInputs) -> Findings:
    """Table 1: one draw of noise on the children, l1."""
    return _children("table-1", Norm.L1)


def children_l2(_: StudyInputs) -> Findings:
    """Table 3: one draw, l2."""
    return _children("table-3", Norm.L2)


def intersecting_boxes(_: StudyInputs) -> Findings:
    """Figure 5: 1,000 draws for the 14 cells, by cell."""
    return _boxes("figure-5", "intersecting")


def children_boxes(_: StudyInputs) -> Findings:
    """Figure 7: 1,000 draws for the children, by cell."""
    return _boxes("figure-7", "children")


def illinois_boxes(inputs: StudyInputs) -> Findings:
    """Figure 2: 1,000 draws for the counties of Illinois, smallest county first."""
    counties = illinois_populations(inputs)
    names = tuple(counties["name"].to_list())
    draws = {norm: draws_of("Illinois", norm, BOXED_DRAWS) for norm in NORMS}
    negative = {norm: int((counties["pop"].to_numpy() + drawn < 0).sum()) for norm, drawn in draws.items()}
    tables = [_summary("Illinois", norm, drawn, names) for norm, drawn in draws.items()]
    populations = pl.concat([counties["pop"]] * len(tables))
    # The paper says that the overwhelming majority lies within 30.
    within = float((np.abs(draws[Norm.L1]) <= 30).mean())
    return Findings(
        tables={"figure-2": pl.concat(tables).with_columns(population=populations)},
        drawings={
            "figure-2": box_plot(
                {f"{n.value} norm": {"integer subspace": d} for n, d in draws.items()},
                names,
                "county, by population",
            )
        },
        notes=(
            f"Counties that came out negative in {BOXED_DRAWS:,} draws: l1 {negative[Norm.L1]}, l2 {negative[Norm.L2]} "
            "(the paper: none in any county of its states).",
            f"{within:.2%} of the l1 noises lie within 30 (the paper: the overwhelming majority).",
            "The paper shows l1 only, and errors of the demonstration data of November 2020, which are not here.",
            NOTE,
        ),
    )


def unbiasedness(_: StudyInputs) -> Findings:
    """Mean of every cell's noise, in standard errors, and margins, over many draws."""
    table = pl.concat([_means(name, norm) for name in EXAMPLES for norm in NORMS])
    largest = float(table["largest_mean_in_standard_errors"].to_numpy().max())
    cells = int(table["cells"].sum())
    off = int(table["draws_off_the_margins"].sum())
    return Findings(
        tables={"unbiasedness": table},
        notes=(
            f"{off} of {CHECKED_DRAWS * table.height:,} draws change a constrained sum.",
            f"Largest mean: {largest:.2f} standard errors, of {cells} cells. Unbiased ones have as much or more with "
            f"probability {1 - (1 - 2 * upper_tail(largest)) ** cells:.2f}.",
            NOTE,
        ),
    )


def _means(name: str, norm: Norm) -> pl.DataFrame:
    """One row: how far the means of an example's noise are from zero."""
    draws = draws_of(name, norm, CHECKED_DRAWS)
    # Standard error of each cell's mean.
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    row = {
        "example": name,
        "norm": norm.value,
        "sampler": sampler_of(name, norm).name,
        "draws": len(draws),
        "cells": draws.shape[1],
        "largest_mean": float(np.abs(draws.mean(axis=0)).max()),
        "largest_mean_in_standard_errors": float(np.abs(draws.mean(axis=0) / error).max()),
        "expected_of_unbiased": _expected_largest(draws.shape[1]),
        "draws_off_the_margins": int(np.any(EXAMPLES[name]().system.totals(draws.T), axis=0).sum()),
        "mean_absolute": float(np.abs(draws).mean()),
        "standard_deviation": float(draws.std()),
    }
    return example_with_parameters(pl.DataFrame([row]), name, norm)


def upper_tail(x: float) -> float:
    """Probability that a standard normal number is above x."""
    from scipy.stats import norm

    return float(norm.sf(x))


def _expected_largest(n: int) -> float:
    """Median of the largest of n absolute normal numbers."""
    from scipy.stats import norm

    # P(all of n below x) = (2 Phi(x) - 1)^n is one half. Cells that share a sum are not independent, so it is
    # a guide.
    return float(norm.ppf((1 + 0.5 ** (1 / n)) / 2))


def _children(name: str, norm: Norm) -> Findings:
    noise = draws_of("children", norm, 1)[0].reshape(4, 4)
    table = _with_totals(noise)
    # 0 if the noise keeps every row and column.
    off = np.count_nonzero(noise.sum(axis=0)) + np.count_nonzero(noise.sum(axis=1))
    law = pl.DataFrame({"norm": [norm.value]})
    return Findings(
        tables={name: table, f"{name}-parameters": example_with_parameters(law, "children", norm)},
        notes=(
            f"Rows and columns whose noise does not sum to 0: {off}.",
            f"How the noise is drawn: {sampler_of('children', norm).reason}.",
            NOTE,
        ),
    )


def _summary(example: str, norm: Norm, draws: Integers, names: tuple[str, ...]) -> pl.DataFrame:
    """Summary numbers of an example's noise, with its privacy parameters."""
    return example_with_parameters(summary(draws, names, norm=norm.value), example, norm)


def _with_totals(noise: Integers) -> pl.DataFrame:
    whole = np.vstack([noise, noise.sum(axis=0)])
    columns = {level: whole[:, i] for i, level in enumerate(EDUCATION)}
    return pl.DataFrame({"county": [*COUNTIES, "Total"], **columns, "Total": whole.sum(axis=1)})


def _boxes(name: str, example: str) -> Findings:
    names = cell_names(example)
    draws = {norm: draws_of(example, norm, BOXED_DRAWS) for norm in NORMS}
    return Findings(
        tables={name: pl.concat([_summary(example, n, d, names) for n, d in draws.items()])},
        drawings={
            name: box_plot(
                {f"{n.value} norm": {"integer subspace": d} for n, d in draws.items()}, names, "cell"
            )
        },
        notes=(NOTE,),
    )


_GEOLEVEL: Final = 253
"""Field geolevel of this exhibit's addresses; the query is the State's code."""

_LAW: Final = GeneralisedLaplace(Norm.L1, ILLINOIS_EPSILON)
"""The law of Illinois, for every State."""


def counties(inputs: StudyInputs) -> Findings:
    """Box-plot numbers of every county, and for each State spread, bias, and draws with a negative county."""
    populations = county_populations(inputs)
    tables, rows = [], []
    for state, of_state in sorted(populations.partition_by("state", as_dict=True).items()):
        code = str(state[0])
        if of_state.height < 2:  # one county is the State, whose total is exact
            continue
        draws = _draws(int(code), of_state.height)
        truth = of_state["pop"].to_numpy()
        tables.append(
            summary(draws, tuple(of_state["name"].to_list()), state=code).with_columns(
                population=of_state["pop"]
            )
        )
        errors = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
        rows.append(
            {
                "state": code,
                "counties": of_state.height,
                "smallest": int(truth.min()),
                "standard_deviation": float(draws.std()),
                "within_30": float((np.abs(draws) <= 30).mean()),
                "largest_mean_in_standard_errors": float(np.abs(draws.mean(axis=0) / errors).max()),
                # Averaged over draws: each draw has noise with a slope of its own.
                "slope_on_rank": float(_slopes(draws).mean()),
                "slope_standard_error": float(_slopes(draws).std(ddof=1) / np.sqrt(len(draws))),
                "negative_draws": int((truth + draws < 0).any(axis=1).sum()),
            }
        )
    lattice = _lattice(2)  # the nearest tables differ in two counties, however many there are
    table = with_parameters(pl.DataFrame(rows), _LAW, lattice)
    steepest = float((table["slope_on_rank"] / table["slope_standard_error"]).abs().to_numpy().max())
    return Findings(
        tables={"figure-8": with_parameters(pl.concat(tables), _LAW, lattice), "figure-8-states": table},
        notes=(
            f"{table.height} States (with the District of Columbia and Puerto Rico, where they have two counties or "
            f"more), {table['counties'].sum():,} counties, {BOXED_DRAWS:,} draws of each State.",
            f"Draws with a negative county: {table['negative_draws'].sum()} of {BOXED_DRAWS * table.height:,}.",
            "`slope_on_rank` is the mean slope of a draw's noise on the rank of the county's population: bias that "
            f"grows with size would show there. The steepest is {steepest:.2f} standard errors from zero; of "
            f"{table.height} unbiased ones, one is as steep or steeper with probability "
            f"{1 - (1 - 2 * upper_tail(steepest)) ** table.height:.2f}.",
            NOTE,
        ),
    )


def _lattice(n: int) -> Lattice:
    return lattice_of(ConstraintSystem.from_sets([range(n)], n, ["total of the State"]))


def _draws(state: int, n: int) -> Integers:
    choice = choose_sampler(_lattice(n), _LAW)
    if choice.sampler is None:  # one sum always has one
        raise RuntimeError(choice.reason)
    return choice.sampler.draw(NoiseAddress(NoiseSource(KEY), _GEOLEVEL, state), range(BOXED_DRAWS))


def _slopes(draws: Integers) -> npt.NDArray[np.float64]:
    """For each draw, the slope of the noise on the rank from 0 (smallest county) to 1."""
    # Centred, so that the slope is a plain ratio of sums. Counties are sorted by population.
    rank = np.linspace(-0.5, 0.5, draws.shape[1])
    return np.asarray(draws @ rank / (rank @ rank), dtype=np.float64)
