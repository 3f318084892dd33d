"""Table 1: the least noise of each geolevel that keeps the published epsilon. Table 3: the allocation itself.

Section 3.2 says that with the reduced noise "our epsilon value is smaller than that of the Bureau as long as
delta > 1e-11". The noise was matched at delta 1e-11 only, and losses live on a lattice, so this has to be
looked at. Here is the least noise that keeps epsilon smaller at all these deltas.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
from scipy.optimize import brentq

from tallyveil.accounting import (
    Calibration,
    DiscreteGaussian,
    Guarantee,
    SequentialEvent,
    ZcdpConversion,
    ZcdpCurve,
    calibrate_to_curve,
    curve_excess,
    zcdp_to_epsilon_textbook,
)
from tallyveil.accounting.guarantee import DELTAS
from tallyveil.accounting.numbers import log_of
from tallyveil_studies.exhibit import Comparison, Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    DELTA,
    FOLDS,
    NEIGHBOURS,
    OVERALL_DELTA,
    RHO,
    compared,
    geolevel_guarantee,
    geolevel_rho,
    noise_parameters,
    overall_event,
    printed,
    printed_variances,
    reduced_noise,
    shares,
    variances,
)

_POINTS = 2001
"""Epsilons at which a crossing is looked for. It is only a search: what the table calls certified is certified
between the points, too."""

_ROUNDED = 1e-11
"""Of ln delta: more than the rounding of both curves, so that two equal curves are not said to cross."""
_FROM = 0.8
"""Share of the largest epsilon at which the look for a crossing begins; the whole curve is certified elsewhere."""


@cache
def least_noise(variance: Fraction) -> Calibration[DiscreteGaussian]:
    """The smallest noise of one geolevel whose epsilon is at most the Bureau's at every delta of 1e-11 or more."""
    return calibrate_to_curve(
        DiscreteGaussian(variance, multiplicity=FOLDS),
        reference=ZcdpCurve(geolevel_rho(variance)),
        smallest_delta=DELTA,
        neighbours=NEIGHBOURS,
    )


@cache
def overall_least_noise() -> Calibration[SequentialEvent]:
    """The smallest noise of all geolevels whose epsilon is at most the Bureau's at every delta of 1e-10 or more."""
    return calibrate_to_curve(
        overall_event(), reference=ZcdpCurve(RHO), smallest_delta=OVERALL_DELTA, neighbours=NEIGHBOURS
    )


def whole_curve_table() -> pl.DataFrame:
    """One row for each geolevel: the noise matched at one delta, the paper's, and the least for all deltas."""
    rows = []
    for geolevel, variance in variances().items():
        # The Bureau's whole curve is the reference, not its epsilon at one delta.
        curve, paper = ZcdpCurve(geolevel_rho(variance)), printed("table-1-ours")[geolevel].value
        matched, least = reduced_noise(variance), least_noise(variance)
        end = curve.epsilon(DELTA)
        rows.append(
            {
                "geolevel": geolevel,
                "bureau_variance": float(variance),
                "variance_matched_at_one_delta": float(variance * matched.factor),
                "epsilon_larger_up_to_delta": largest_delta_missed(matched.guarantee, curve),
                "paper_variance": float(paper),
                "paper_epsilon_larger_up_to_delta": largest_delta_missed(geolevel_guarantee(paper), curve),
                "paper_variance_suffices": curve_excess(geolevel_guarantee(paper), curve, end).bound <= 0,
                "variance_for_all_deltas": float(variance * least.factor),
                "reduction_for_all_deltas_percent": float(100 * (1 - least.factor)),
                "log_delta_excess_bound": curve_excess(least.guarantee, curve, end).bound,
            }
        )
    return pl.DataFrame(rows)


def requirement(table: pl.DataFrame) -> tuple[Comparison, ...]:
    """The paper's requirement: 1e-11 bounds all deltas at which its noise misses the Bureau's curve.

    Where it misses the curve nowhere, our number is 0.
    """
    # Where nothing is missed the requirement holds, so 0.
    missed = table["paper_epsilon_larger_up_to_delta"].fill_null(0.0)
    ours = dict(zip(table["geolevel"], missed, strict=True))
    return compared("table-1-requirement", ours, "epsilon is larger with the printed variance up to delta")


def largest_delta_missed(guarantee: Guarantee, curve: ZcdpCurve) -> float | None:
    """The largest delta of 1e-11 or more at which epsilon exceeds the curve's; None where none was found.

    The guarantee's lower bound is compared, so that the excess is certain.
    """
    end = curve.epsilon(DELTA)

    def excess(epsilon: float) -> float:
        # As logarithms of delta: the two differ by less than a float of delta could show.
        return guarantee.log_delta(epsilon).lower - curve.log_delta_below(epsilon) - _ROUNDED

    epsilons = np.linspace(_FROM * end, end, _POINTS).tolist()
    missed = [place for place, epsilon in enumerate(epsilons) if excess(epsilon) > 0]
    # Missed already at the first point: the crossing lies outside the range that is looked at.
    if not missed or missed[0] == 0:
        return None
    # The crossing itself, between the last point that holds and the first that misses.
    first = brentq(excess, epsilons[missed[0] - 1], epsilons[missed[0]], xtol=1e-12)
    return max(math.exp(curve.log_delta_below(first)), math.exp(log_of(DELTA)))


def reduced_variances(_: StudyInputs) -> Findings:
    """Table 1: the least variance whose epsilon at delta 1e-11 is the zCDP epsilon of the Bureau's variance."""
    # From the exact shares; the paper's numbers follow from them.
    exact = _reduced(variances())
    ours = dict(zip(exact["geolevel"], exact["our_variance"], strict=True))
    reductions = dict(zip(exact["geolevel"], exact["our_reduction_percent"], strict=True))
    bureau = {geolevel: float(variance) for geolevel, variance in variances().items()}
    whole_curve = whole_curve_table()
    return Findings(
        tables={
            "table-1": exact,
            # And from the rounded ones, to show that they do not give the paper's last digits.
            "table-1-from-rounded-variances": _reduced(printed_variances()),
            "table-1-whole-curve": whole_curve,
            "table-1-parameters": _parameters(),
        },
        comparisons=(
            *compared("table-1-bureau", bureau, "published variance"),
            *compared("table-1-ours", ours, "least variance"),
            *compared("table-1-reduction", reductions, "reduction in percent"),
            # The paper's requirement is of all deltas above 1e-11, which a match at one delta does not meet.
            *requirement(whole_curve),
        ),
        notes=(
            "Our variances are rounded up: the certified epsilon never exceeds the published one.",
            "The second table starts from the Bureau's variances as Table 1 rounds them; the paper's numbers "
            "follow from the exact ones.",
            "The paper wants epsilon to be smaller than the Bureau's at every delta above 1e-11, and matches it at "
            "1e-11. Losses live on a lattice, so this is not enough. The third table has the least variances that "
            "keep to the Bureau's whole curve from 1e-11 up, certified between all points, and the deltas at which "
            "the others miss it.",
        ),
    )


def _parameters() -> pl.DataFrame:
    """Privacy parameters of every geolevel before and after its noise is reduced."""
    rows = []
    for geolevel, variance in variances().items():
        noises = {
            "Bureau's": variance,
            "reduced, matched at delta 1e-11": variance * reduced_noise(variance).factor,
            "reduced, for all deltas": variance * least_noise(variance).factor,
        }
        for noise, reduced in noises.items():
            rho = geolevel_rho(reduced)
            # What the Bureau's conversion would say of the reduced noise.
            claimed = {
                f"textbook_epsilon_at_{delta}": ZcdpConversion.TEXTBOOK.epsilon(rho, Fraction(delta))
                for delta in DELTAS
            }
            parameters = {**noise_parameters(reduced), **claimed}
            rows.append(
                {
                    "geolevel": geolevel,
                    "noise": noise,
                    "variance": float(reduced),
                    "rho": float(rho),
                    **parameters,
                }
            )
    return pl.DataFrame(rows)


def _reduced(bureau: Mapping[str, Fraction]) -> pl.DataFrame:
    """One row each geolevel, from the Bureau's variances."""
    rows = []
    for geolevel, variance in bureau.items():
        # The factor is rounded up by the search, so the variance is never too small.
        calibration = reduced_noise(variance)
        rows.append(
            {
                "geolevel": geolevel,
                "bureau_variance": float(variance),
                "epsilon": zcdp_to_epsilon_textbook(geolevel_rho(variance), DELTA),
                "our_variance": float(variance * calibration.factor),
                "paper_variance": float(printed("table-1-ours")[geolevel].value),
                "our_reduction_percent": float(100 * (1 - calibration.factor)),
                "paper_reduction_percent": float(printed("table-1-reduction")[geolevel].value),
                "epsilon_at_our_variance": calibration.guarantee.epsilon(DELTA).upper,
            }
        )
    return pl.DataFrame(rows)


def allocation(_: StudyInputs) -> Findings:
    """Table 3: shares of rho, with the variances and costs they give."""
    rows = [
        {
            "geolevel": geolevel,
            "share_percent": float(100 * share),
            "queries": FOLDS,
            "rho": float(share * RHO),
            "variance": float(variances()[geolevel]),
            "variance_as_printed": float(printed_variances()[geolevel]),
            **noise_parameters(variances()[geolevel]),
        }
        for geolevel, share in shares().items()
    ]
    total = sum(shares().values(), Fraction(0))
    # Table 3 prints percents.
    percent = {name: 100 * share for name, share in shares().items()}
    return Findings(
        tables={"table-3": pl.DataFrame(rows)},
        comparisons=compared("table-3", percent, "share in percent"),
        notes=(
            f"The shares sum to {float(100 * total):g} percent of rho = {float(RHO):g}. The paper prints seven "
            "columns: two geolevels have the same share and are counted together, as twenty queries.",
        ),
    )
