"""Section 3.1: with the same noise, epsilon is smaller than the Bureau's at every delta between 0 and 1.

The paper draws curves, which show some deltas. docs/proofs/every-delta.md proves the claim for all of them. Variables:
rho; x = sqrt(ln(1 / delta) / rho). The Bureau's epsilon is rho + 2 sqrt(rho ln(1 / delta)), and the exact one is
smaller by at least

    ln(1 + 1 / x) + ln(1 + x) / x,

or it is 0. Here the exact accountant is held against this at deltas from nearly 1 to nearly 0.
"""

from fractions import Fraction
from typing import Final, NamedTuple

import polars as pl

from tallyveil.accounting import Guarantee
from tallyveil.accounting.numbers import round_up
from tallyveil.noise.balls import precision, rational
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    RHO,
    geolevel_guarantee,
    geolevel_rho,
    overall_guarantee,
    variances,
)

DELTAS: Final = ("0.999999", "0.5", "1e-2", "1e-5", "1e-11", "1e-50", "1e-200")
"""Where the accountant is asked. The proof holds at every other delta, too."""

ALL_GEOLEVELS: Final = "all geolevels"
_BITS: Final = 128  # working precision of the balls; the answers are rounded to 53


class Bureau(NamedTuple):
    """The Bureau's epsilon at one delta, and by how much less the proof promises; both rounded down.

    Attributes:
        epsilon: rho + 2 sqrt(rho ln(1 / delta)).
        proved_less: The exact epsilon is smaller by at least this, or it is 0.
        proved_at_most: The exact epsilon is at most this; rounded up.
    """

    epsilon: float
    proved_less: float
    proved_at_most: float


def bureau(rho: Fraction, delta: Fraction) -> Bureau:
    """What the Bureau states and what is proved for every mechanism with this rho.

    Args:
        rho: zCDP cost, above 0.
        delta: Between 0 and 1.
    """
    with precision(_BITS):
        r, log = rational(rho), -rational(delta).log()
        x = (log / r).sqrt()
        epsilon = r + 2 * (r * log).sqrt()
        less = (1 + 1 / x).log() + (1 + x).log() / x
        # Both are rounded down, and what follows for the exact epsilon is rounded up.
        return Bureau(-round_up(-epsilon), -round_up(-less), max(0.0, round_up(epsilon - less)))


def every_delta(_: StudyInputs) -> Findings:
    """The Bureau's epsilon, the exact one, and what is proved of their difference."""
    guarantees: dict[str, tuple[Fraction, Guarantee]] = {
        geolevel: (geolevel_rho(variance), geolevel_guarantee(variance))
        for geolevel, variance in variances().items()
    }
    guarantees[ALL_GEOLEVELS] = (RHO, overall_guarantee())
    rows = []
    for geolevel, (rho, guarantee) in guarantees.items():
        for delta in DELTAS:
            # The exact epsilon by its upper bound, so that "smaller by" is at least what is shown.
            stated, exact = bureau(rho, Fraction(delta)), guarantee.epsilon(delta).upper
            rows.append(
                {
                    "geolevel": geolevel,
                    "rho": float(rho),
                    "delta": delta,
                    "bureau_epsilon": stated.epsilon,
                    "exact_epsilon_upper": exact,
                    "smaller_by": stated.epsilon - exact,
                    "proved_smaller_by": min(stated.proved_less, stated.epsilon),
                }
            )
    return Findings(
        tables={"every-delta": pl.DataFrame(rows)},
        notes=(
            "docs/proofs/every-delta.md proves the claim of section 3.1 for every delta between 0 and 1, for every "
            "mechanism with rho-zCDP: the exact epsilon is smaller than the Bureau's by at least the last column, "
            "which is above 0 and tends to 0 as delta does. The trade-off function lies above the Bureau's, too.",
            "The claim rests on the conversion alone. It would hold for any noise with this rho, not only for discrete "
            "Gaussian noise.",
        ),
    )
