"""Noise and what becomes of it: tables, box plots, unbiasedness, margins, projection, and no negative counts.

These are Tables 1 and 3, Figures 2, 5, 7, 9 and our half of 8, and the appendix. Figure 8 has the counties of
every State under its exact total. Its other half, errors of the demonstration data of November 2020, is not
here.

Projected noise: The paper adds double-geometric noise, takes the nearest point with the exact sum in l2, then
the nearest whole point with that sum in l1. For one sum both have closed forms: subtract the mean, then round
some cells up and the others down. All cells have the same remainder then, so that any choice of as many cells
is as near. They are chosen at random here: a fixed choice, such as a solver's first answer, favours the same
cells in every draw and is biased by up to half a count.

Without negative counts, the bias depends on the size of a count; the counties of Illinois (Figure 9) show it.
"""

from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.noise import DiscreteLaplace, NoiseSource
from tallyveil.subspace.constraints import ConstraintSystem, Structure
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import Lattice, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil.subspace.nonnegative import draw_restricted, nearest_nonnegative
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.integer_subspace.examples import (
    BOXED_DRAWS,
    COUNTIES,
    EDUCATION,
    EXAMPLES,
    ILLINOIS_COUNTIES,
    ILLINOIS_EPSILON,
    KEY,
    NORMS,
    NOTE,
    box_plot,
    cell_names,
    county_populations,
    draws_of,
    example_with_parameters,
    illinois_populations,
    random_orders,
    sampler_of,
    summary,
    with_parameters,
)

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


_BOXED_GEOLEVEL: Final = 253
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
    return choice.sampler.draw(NoiseAddress(NoiseSource(KEY), _BOXED_GEOLEVEL, state), range(BOXED_DRAWS))


def _slopes(draws: Integers) -> npt.NDArray[np.float64]:
    """For each draw, the slope of the noise on the rank from 0 (smallest county) to 1."""
    # Centred, so that the slope is a plain ratio of sums. Counties are sorted by population.
    rank = np.linspace(-0.5, 0.5, draws.shape[1])
    return np.asarray(draws @ rank / (rank @ rank), dtype=np.float64)


COMPARED_DRAWS: Final = 50_000
"""Draws of each kind of noise: enough to tell spreads apart to 0.1 %."""

_ADDRESS: Final = 255
"""Field geolevel of this exhibit's addresses."""


def projected(inputs: StudyInputs) -> Findings:
    """Both kinds of noise on the counties of Illinois, at the same epsilon for tables at l1 distance 1."""
    names = tuple(illinois_populations(inputs)["name"].to_list())
    ours = draws_of("Illinois", Norm.L1, COMPARED_DRAWS)
    order = NoiseSource(KEY).numbers(_ADDRESS, 1, range(COMPARED_DRAWS), 0, ILLINOIS_COUNTIES)
    # Query 0 is the noise, query 1 the order in which cells are rounded up.
    theirs = project(_free_noise(COMPARED_DRAWS), order)
    kinds = {"integer subspace": ours, "noise, then projected": theirs}
    spread = pl.DataFrame(
        [
            {
                "kind": kind,
                "draws": len(draws),
                "standard_deviation": float(draws.std()),
                "mean_absolute": float(np.abs(draws).mean()),
                "interquartile_range": float(np.subtract(*np.quantile(draws, [0.75, 0.25]))),
                "largest_mean_in_standard_errors": float(
                    np.abs(draws.mean(axis=0) / (draws.std(axis=0) / np.sqrt(len(draws)))).max()
                ),
                "draws_off_the_sum": int(np.count_nonzero(draws.sum(axis=1))),
            }
            for kind, draws in kinds.items()
        ]
    )
    boxes = {kind: draws[:BOXED_DRAWS] for kind, draws in kinds.items()}
    by_county = pl.concat([summary(d, names, kind=kind) for kind, d in boxes.items()])
    ratio = float(ours.std() / theirs.std())
    return Findings(
        tables={
            "projection": example_with_parameters(spread, "Illinois", Norm.L1),
            "projection-by-county": example_with_parameters(by_county, "Illinois", Norm.L1),
        },
        drawings={"projection": box_plot({"l1 norm": boxes}, names, "county, by population")},
        notes=(
            f"The standard deviation of noise that keeps the sum is {ratio:.4f} times that of projected noise (the "
            "paper: the magnitude is comparable).",
            "Projected noise is post-processed: its epsilon is that of the noise before, for tables of any sum; its "
            "law has no closed form. Noise on the lattice protects tables with the same sum, and its law is stated.",
            f"{NOTE} For projected noise they are upper bounds: before the projection its loss is at most epsilon for "
            "each unit of distance.",
        ),
    )


def project(noise: Integers, order: npt.NDArray[Any]) -> Integers:
    """A nearest whole vector that sums to zero, as the paper takes it.

    Args:
        noise: int64 [draws, cells].
        order: [draws, cells]; cells with the smallest numbers are rounded up.
    Returns:
        int64 [draws, cells]; every row sums to zero.
    """
    n = noise.shape[1]
    # n z - sum(z) is the centred noise in units of 1 / n, and its remainder by n is the same in every cell.
    floors = (n * noise - noise.sum(axis=1, keepdims=True)) // n
    # Rank of each cell in the random order of its draw.
    rank = np.argsort(np.argsort(order, axis=1), axis=1)
    return np.asarray(floors + (rank < -floors.sum(axis=1, keepdims=True)), dtype=np.int64)


def _free_noise(draws: int) -> Integers:
    source = NoiseSource(KEY)
    law = DiscreteLaplace(1 / ILLINOIS_EPSILON)
    return np.asarray(source.dense(law, _ADDRESS, 0, range(draws), ILLINOIS_COUNTIES), dtype=np.int64)


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

_NONNEGATIVE_GEOLEVEL: Final = 254
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
    pairs = zip(noisy, random_orders(_NONNEGATIVE_GEOLEVEL, _ORDER, noisy.shape), strict=True)
    return np.stack([nearest_nonnegative(table, structure, order) for table, order in pairs])


def _address(query: int) -> NoiseAddress:
    return NoiseAddress(NoiseSource(KEY), _NONNEGATIVE_GEOLEVEL, query)


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
