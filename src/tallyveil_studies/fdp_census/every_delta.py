"""Section 3.1: with the same noise, epsilon is smaller than the Bureau's at every delta between 0 and 1.

The paper draws curves, which show some deltas. docs/proofs/every-delta.md proves the claim for all of them, at every
geolevel and for every mechanism with a rho, by either conversion. Variables: rho; x = sqrt(ln(1 / delta) / rho). The
textbook's epsilon is rho + 2 sqrt(rho ln(1 / delta)), and the exact one is smaller by at least

    ln(1 + 1 / x) + ln(1 + x) / x,

or it is 0. Here the exact accountant is held against this at deltas from nearly 1 to nearly 0. The second table has
all geolevels of the paper and of the released products, and certifies a percentage at every delta of 1e-11 or more (the
products: 1e-10). The Bureau stated the epsilon of the redistricting data by the best conversion, and that of the DHC by
the textbook's.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, NamedTuple

import polars as pl

from tallyveil.accounting import Guarantee, ZcdpConversion, ZcdpCurve, compose, rho_of
from tallyveil.accounting.numbers import at_least, round_up
from tallyveil.accounting.reduction import certified_reduction
from tallyveil.budget.guarantees import TOGETHER
from tallyveil.budget.presets import DELTA as PUBLISHED_DELTA
from tallyveil.budget.presets import load_product, product_names
from tallyveil.noise.balls import precision, rational
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    DELTA,
    RHO,
    compared,
    geolevel_guarantee,
    geolevel_rho,
    overall_guarantee,
    variances,
)

FAR_DELTAS: Final = ("0.999999", "0.5", "1e-2", "1e-5", "1e-11", "1e-50", "1e-200")
"""Where the accountant is asked. The proof holds at every other delta, too."""

PAPER: Final = "the paper's"
"""Name of the paper's allocation, among those of the products."""

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
    """The Bureau's epsilon, the exact one, what is proved of their difference, and a percentage for each geolevel."""
    names = (PAPER, *product_names())
    geolevels = pl.DataFrame([row for name in names for row in reductions(name)])
    of_paper = geolevels.filter(pl.col("geolevel") != TOGETHER, allocation=PAPER)
    products = geolevels.filter(pl.col("allocation") != PAPER)
    paper = min(of_paper["smaller_than_textbook_percent"].to_list())
    textbook = min(products["smaller_than_textbook_percent"].to_list())
    best = min(products["smaller_than_best_percent"].to_list())
    return Findings(
        tables={"every-delta": far_deltas(), "every-delta-geolevels": geolevels},
        comparisons=compared(
            "figure-3-reduction",
            {"least, at the State": paper},
            "epsilon lower by percent at every delta",
        ),
        notes=(
            "docs/proofs/every-delta.md proves the claim of section 3.1 for every delta between 0 and 1, for every "
            "mechanism with rho-zCDP: the exact epsilon is smaller than the Bureau's by at least the last column, "
            "which is above 0 and tends to 0 as delta does. The trade-off function lies above the Bureau's, too.",
            "The claim rests on the conversion alone. It would hold for any noise with this rho, not only for discrete "
            "Gaussian noise. It holds beside the best conversion of rho, too, by which the Bureau stated the epsilon "
            "of the redistricting data.",
            f"At every delta of 1e-11 or more the exact epsilon of each geolevel of the paper is smaller by at least "
            f"{at_least(paper)} percent; certified between all points.",
            f"At every delta of 1e-10 or more that of each geolevel of each released product is smaller than the "
            f"textbook's by at least {at_least(textbook)} percent, and than the "
            f"best conversion's by at least {at_least(best)} percent.",
        ),
    )


def _of_paper() -> dict[str, tuple[Fraction, Guarantee]]:
    """rho and the guarantee of every geolevel, and of all together."""
    guarantees = {
        geolevel: (geolevel_rho(variance), geolevel_guarantee(variance))
        for geolevel, variance in variances().items()
    }
    return {**guarantees, TOGETHER: (RHO, overall_guarantee())}


def _of_product(name: str) -> dict[str, tuple[Fraction, Guarantee]]:
    """rho and the guarantee of every geolevel of a product, and of all together; of several products only together."""
    product = load_product(name)
    neighbours = product.strategies[0].neighbours
    events = {TOGETHER: product.event}
    if len(product.strategies) == 1:
        (strategy,) = product.strategies
        events = {level: strategy.geolevel_event(level) for level in strategy.geolevels} | events
    return {level: (rho_of(event), compose(event, neighbours=neighbours)) for level, event in events.items()}


def reductions(name: str) -> Iterator[dict[str, Any]]:
    """By how many percent epsilon is smaller at every delta from a smallest one up, by either conversion.

    Args:
        name: PAPER, or the name of a product.
    Returns:
        A row for each geolevel, and one for all together. Several products together have this one only.
    """
    allocation = _of_paper() if name == PAPER else _of_product(name)
    smallest = DELTA if name == PAPER else PUBLISHED_DELTA
    for geolevel, (rho, guarantee) in allocation.items():
        curves = {conversion: ZcdpCurve(rho, conversion) for conversion in ZcdpConversion}
        exact = guarantee.epsilon(smallest)
        yield {
            "allocation": name,
            "geolevel": geolevel,
            "rho": float(rho),
            "smallest_delta": f"{float(smallest):.0e}",
            "exact_epsilon_upper": exact.upper,
            **{f"{conversion}_epsilon": curve.epsilon(smallest) for conversion, curve in curves.items()},
            **{
                # Hundredths of a percent, which are the nearest floats to what is certified.
                f"smaller_than_{conversion}_percent": float(
                    100 * certified_reduction(guarantee, curve, smallest, exact)
                )
                for conversion, curve in curves.items()
            },
        }


def far_deltas() -> pl.DataFrame:
    """The textbook's epsilon of every geolevel of the paper, the exact one, and by how much less is proved."""
    rows = []
    for geolevel, (rho, guarantee) in _of_paper().items():
        for delta in FAR_DELTAS:
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
    return pl.DataFrame(rows)
