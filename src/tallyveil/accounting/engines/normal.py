"""One normal loss, in closed form: delta = Phi(mu / 2 - epsilon / mu) - exp(epsilon) Phi(-mu / 2 - epsilon / mu).

All real answers with normal noise together are one such answer with the sum of the squared mu. Ball arithmetic
evaluates the formula, with a precision that is raised until the difference has 60 proved bits.

Source: Balle, Wang 2018, Theorem 8.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from flint import arb

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.tails import (
    DeltaByTails,
    Tails,
    float_bounds,
    probability,
    within_floats,
)
from tallyveil.noise.balls import precision, rational

_PROVED: Final = 60
_FEWEST_BITS: Final = 256
_MOST_BITS: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Normal(DeltaByTails):
    """Certified tails of one normal loss.

    Attributes:
        mu_squared: Exact, above 0.
        name: "normal".
    """

    mu_squared: Fraction
    name: str = "normal"

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`."""
        exact, bits = within_floats(epsilon), _FEWEST_BITS
        while True:
            with precision(bits):
                mu = rational(self.mu_squared).sqrt()
                quotient = rational(exact) / mu
                first, second = _phi(mu / 2 - quotient), _phi(-mu / 2 - quotient)
                delta = first - rational(exact).exp() * second
                if delta.rel_accuracy_bits() >= _PROVED or bits >= _MOST_BITS:
                    return Tails(*(probability(_log(ball)) for ball in (first, second, delta)))
            bits *= 4

    def mu(self) -> Bounds:
        """The parameter of Gaussian differential privacy."""
        with precision(_FEWEST_BITS):
            return float_bounds(rational(self.mu_squared).sqrt())


def _phi(x: arb) -> arb:
    """The normal distribution function."""
    return (-x / arb(2).sqrt()).erfc() / 2


def _log(ball: arb) -> Bounds:
    if ball > 0:
        return float_bounds(ball.log())
    most = ball.upper()
    return Bounds(-float("inf"), float_bounds(most.log()).upper if most > 0 else -float("inf"))
