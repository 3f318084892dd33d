"""Noise on the counties of every State under its exact total (our half of Figure 8), by exact draws.

The paper's other half, errors of the demonstration data of November 2020, is not here.
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
from tallyveil.subspace.mcmc_examples import ILLINOIS_EPSILON
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.integer_subspace.examples import BOXED_DRAWS, KEY, county_populations, summary
from tallyveil_studies.integer_subspace.noise import upper_tail
from tallyveil_studies.integer_subspace.privacy import NOTE, with_parameters

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
