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

# Bits of delta that are proved before a precision is enough: 18 digits, more than the 53 bits of the floats handed out.
# Half of it would show in the width of the bounds; twice of it costs another round for nothing.
_PROVED: Final = 60
# Bits to begin with: 196 beyond the proved ones are left for the cancellation of the two terms, so that only a tiny mu
# needs a second round.
_FEWEST_BITS: Final = 256
# Bits from which a round is the last one. The bounds still hold then, they are only wider than 60 bits.
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
                # Both terms agree in most of their digits where mu is small or epsilon large; hence balls and not
                # floats.
                delta = first - rational(exact).exp() * second
                if delta.rel_accuracy_bits() >= _PROVED or bits >= _MOST_BITS:
                    return Tails(*(probability(_log(ball)) for ball in (first, second, delta)))
            # Four times at once: a round that fails costs little against the one that follows.
            bits *= 4

    def mu(self) -> Bounds:
        """The parameter of Gaussian differential privacy."""
        with precision(_FEWEST_BITS):
            # A square root is proved to nearly all bits at any precision, so that no loop is needed.
            return float_bounds(rational(self.mu_squared).sqrt())


def _phi(x: arb) -> arb:
    """The normal distribution function."""
    # erfc, not erf: the tail keeps its relative precision where Phi is tiny.
    return (-x / arb(2).sqrt()).erfc() / 2


def _log(ball: arb) -> Bounds:
    if ball > 0:
        return float_bounds(ball.log())
    most = ball.upper()
    # A ball that holds 0 gives no lower bound. Its upper end still is a bound; it is at most 0 only for an exact 0.
    return Bounds(-float("inf"), float_bounds(most.log()).upper if most > 0 else -float("inf"))
