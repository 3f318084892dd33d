"""The paper's noise as privacy events: ten equal queries at each of eight geolevels, and one added record.

All variances are computed from the exact shares in Table 3. The row "Bureau's" of Table 1 shows rounded
variances. The paper's other numbers follow from the exact variances: with the rounded ones, some would differ
in the last digit.

The paper's printed numbers are read by section of `printed.toml`.
"""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Final

from tallyveil.accounting import (
    Calibration,
    DiscreteGaussian,
    Guarantee,
    Neighbours,
    SequentialEvent,
    calibrate,
    compose,
    zcdp_to_epsilon_textbook,
)
from tallyveil.accounting.guarantee import exact_parameters
from tallyveil_studies.exhibit import Comparison, PrintedNumber, beside_ours, printed_numbers

_PAPER: Final = "fdp_census"


def printed(section: str) -> dict[str, PrintedNumber]:
    """The numbers of one section, by name.

    Raises:
        ConfigError: there is no such section.
    """
    return printed_numbers(_PAPER, section)


def compared(section: str, ours: Mapping[str, float | Fraction], what: str) -> tuple[Comparison, ...]:
    """The printed numbers of a section beside ours, as `beside_ours` makes them."""
    return beside_ours(_PAPER, section, ours, what)


FOLDS: Final = 10
"""Number of queries at each geolevel."""

RHO: Final = Fraction("3.65")
"""The zCDP cost of all geolevels together."""

DELTA: Final = Fraction("1e-11")
"""The delta at which the noise of one geolevel is matched to the published epsilon."""

OVERALL_DELTA: Final = Fraction("1e-10")
"""The delta at which the noise of all geolevels is matched to the published epsilon."""

NEIGHBOURS: Final = Neighbours.UNBOUNDED

BUREAU: Final = "Bureau's noise"
REDUCED: Final = "reduced noise"


def geolevels() -> tuple[str, ...]:
    """Names of the eight geolevels, root first, as the paper writes them."""
    return tuple(printed("table-3"))


def variances() -> dict[str, Fraction]:
    """Exact variance of each query at each geolevel, computed from the shares."""
    # rho = FOLDS / (2 variance) for the queries of a geolevel; each has a tenth of the geolevel's rho.
    return {geolevel: FOLDS / (2 * share * RHO) for geolevel, share in shares().items()}


def printed_variances() -> dict[str, Fraction]:
    """The rounded variances that Table 1 prints."""
    return {name: number.value for name, number in printed("table-1-bureau").items()}


def shares() -> dict[str, Fraction]:
    """Share of rho of each geolevel, from Table 3."""
    # Table 3 prints percents.
    return {name: number.value / 100 for name, number in printed("table-3").items()}


def geolevel_rho(variance: Fraction, folds: int = FOLDS) -> Fraction:
    """zCDP cost of equal queries with discrete Gaussian noise of this variance."""
    return folds / (2 * variance)


@cache
def geolevel_guarantee(variance: Fraction, folds: int = FOLDS) -> Guarantee:
    """Exact guarantee of equal queries with discrete Gaussian noise of this variance."""
    # Equal queries as one event with a multiplicity, which composes by powers instead of one by one.
    return compose(DiscreteGaussian(variance, multiplicity=folds), neighbours=NEIGHBOURS)


@cache
def noise_parameters(variance: Fraction) -> dict[str, float | None]:
    """Privacy parameters of one geolevel's queries with this noise: what stands beside a claim of accuracy."""
    return exact_parameters(geolevel_guarantee(variance)).to_mapping()


@cache
def reduced_noise(variance: Fraction) -> Calibration[DiscreteGaussian]:
    """The smallest noise of one geolevel that keeps, at DELTA, the epsilon published for `variance`."""
    return calibrate(
        DiscreteGaussian(variance, multiplicity=FOLDS),
        # The Bureau's conversion: rho + 2 sqrt(rho ln(1 / delta)).
        epsilon=zcdp_to_epsilon_textbook(geolevel_rho(variance), DELTA),
        delta=DELTA,
        neighbours=NEIGHBOURS,
    )


def both_noises(geolevel: str) -> dict[str, Fraction]:
    """Variance of a geolevel's queries with the Bureau's noise, and with the smallest of the same published epsilon."""
    variance = variances()[geolevel]
    return {BUREAU: variance, REDUCED: variance * reduced_noise(variance).factor}


def before_and_after(
    bureau: Mapping[str, float | None], reduced: Mapping[str, float | None]
) -> dict[str, float | None]:
    """Privacy parameters with the Bureau's noise and with reduced noise, as columns of one row."""
    return {f"bureau_{name}": value for name, value in bureau.items()} | {
        f"reduced_{name}": value for name, value in reduced.items()
    }


def overall_event(factor: Fraction = Fraction(1)) -> SequentialEvent:
    """All geolevels, with every variance multiplied by a factor."""
    return SequentialEvent(
        tuple(DiscreteGaussian(factor * variance, multiplicity=FOLDS) for variance in variances().values())
    )


@cache
def overall_guarantee(factor: Fraction = Fraction(1)) -> Guarantee:
    """Exact guarantee of all geolevels, with every variance multiplied by a factor."""
    return compose(overall_event(factor), neighbours=NEIGHBOURS)


@cache
def overall_reduced_noise() -> Calibration[SequentialEvent]:
    """The smallest noise of all geolevels that keeps the published epsilon at OVERALL_DELTA."""
    return calibrate(
        overall_event(),
        epsilon=zcdp_to_epsilon_textbook(RHO, OVERALL_DELTA),
        delta=OVERALL_DELTA,
        neighbours=NEIGHBOURS,
    )
