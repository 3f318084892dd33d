"""Known answers of the accounting: the certified bounds of a composition must enclose its exact cost, and be close.

Exact costs come from two places that share no code with the accounting: exact polynomials in ball arithmetic, for the
budget of the 2020 redistricting data, and a closed form of a sum, for discrete Laplace noise.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tallyveil.accounting import Neighbours
from tallyveil.accounting.events import DiscreteGaussian, DiscreteLaplace
from tallyveil.accounting.guarantee import Guarantee, compose
from tallyveil.accounting.numbers import Bounds
from tallyveil.selftest.answers import KnownAnswer

# Rho of the 2020 redistricting data, as an exact fraction.
RHO: Final = Fraction(365, 100)
SHARES: Final = (20, 274, 85, 131, 238, 118, 3)
"""Thousandths of rho of the seven geolevels, root first."""
ANSWERS: Final = (10, 10, 10, 20, 10, 10, 10)
"""Answers that one record moves at each geolevel."""
PRINTED: Final = 1e-12
"""The known answers are printed to twelve digits, so a bound may miss one by this much, as a share of it."""
WIDEST: Final = 1e-9
"""Largest allowed distance of the two bounds, as a share of the answer."""
EXACT: Final = "exact polynomials"
CLOSED: Final = "closed form"


def accounting_answers() -> Iterator[KnownAnswer]:
    """Epsilon and delta of a large composition, and delta of discrete Laplace noise."""
    census = _census()
    name = "80 discrete Gaussian answers"
    yield _enclosed(f"epsilon of {name}, delta 1e-10", EXACT, "20.324689750790", census.epsilon("1e-10"))
    yield _enclosed(f"epsilon of {name}, delta 1e-5", EXACT, "14.576026882760", census.epsilon("1e-5"))
    yield _enclosed(f"delta of {name}, epsilon 10", EXACT, "4.567884368769e-3", census.delta("10"))
    single = compose(DiscreteLaplace(1), neighbours=Neighbours.UNBOUNDED)
    yield _enclosed("delta of a discrete Laplace answer", CLOSED, "0.287649136645", single.delta("0.5"))
    ten = compose(DiscreteLaplace(2, 1, 10), neighbours=Neighbours.UNBOUNDED)
    yield _enclosed("delta of ten discrete Laplace answers", CLOSED, "0.145466446441", ten.delta("2"))


def _census() -> Guarantee:
    events = [
        # Each query has a tenth of the rho of its geolevel: variance 1/(2 rho), as for zCDP.
        DiscreteGaussian(10 / (2 * Fraction(share, 1000) * RHO), 1, answers)
        for share, answers in zip(SHARES, ANSWERS, strict=True)
    ]
    return compose(*events, neighbours=Neighbours.UNBOUNDED)


def _enclosed(name: str, source: str, exact: str, bounds: Bounds) -> KnownAnswer:
    known = float(exact)
    # The slack is for the printed digits alone: bounds that are certified may exclude a rounded number.
    encloses = bounds.upper >= known * (1 - PRINTED) and bounds.lower <= known * (1 + PRINTED)
    wanted = f"bounds around {exact}, at most {WIDEST:g} of it apart"
    got = f"{bounds.lower!r} to {bounds.upper!r}"
    close = bounds.upper - bounds.lower <= WIDEST * known
    return KnownAnswer("accounting", name, source, wanted, got, encloses and close)
