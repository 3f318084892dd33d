"""The exact epsilon at a delta, to many digits, from the masses of `Proved`."""

from fractions import Fraction

from flint import arb

from tallyveil.accounting.engines.ball_tails import Proved
from tallyveil.noise.balls import precision, rational


def epsilon_ball(proved: Proved, delta: Fraction) -> arb:
    """The epsilon, perhaps negative, at which the divergence is exactly `delta`, which lies between 0 and 1."""

    def loss(z: int) -> arb:
        return rational(proved.lattice.offset + proved.lattice.step * z)

    with precision(proved.bits + 64):
        wanted = rational(delta)
        low, high = proved.lowest - 1, proved.lowest + len(proved.masses_from)
        while high - low > 1:  # delta falls with epsilon; it is above `wanted` at low, below at high
            middle = (low + high) // 2
            first, second = proved._tails_from(middle + 1)
            excess = first - loss(middle).exp() * second - wanted
            # Neither above nor below: the ball holds the wanted delta, so the masses are too rough to say.
            assert excess > 0 or excess < 0, "the bits kept do not resolve this delta"
            low, high = (middle, high) if excess > 0 else (low, middle)
        first, second = proved._tails_from(low + 1)
        # P - exp(epsilon) Q = delta, solved for epsilon between two losses, where both tails are constants.
        epsilon = ((first - wanted) / second).log()
        assert low < proved.lowest or (epsilon >= loss(low) and epsilon <= loss(low + 1))
        return epsilon
