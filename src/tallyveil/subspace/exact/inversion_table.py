"""Draws one of finitely many outcomes, or none of them, with certified probabilities.

Problem. Outcomes 0, 1, ..., n - 1 have real probabilities that ball arithmetic can compute to any precision. Wanted is
a draw with exactly these probabilities.

Variables. F(j) is the probability of the outcomes up to j, with F(-1) = 0. U is a uniform number, read digit by digit.

Steps. The outcome is the j with F(j - 1) <= U < F(j), or n if U is at least F(n - 1). The first 64 digits of U are
compared with the certified first 64 digits of every F. If they are equal to those of some F, more digits are read and
compared.

Stopping rule. The comparison ends at the first digits that differ.

Worked case. Two outcomes have probabilities 1/2 and 1/4. U = 0.6 gives outcome 1, because 1/2 <= 0.6 < 3/4. U = 0.9
gives index 2: neither of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from flint import arb

from tallyveil.errors import SolverError
from tallyveil.noise.balls import MAX_PRECISION, certified_floor, power_of_two, precision

_GUARD_BITS: Final = 64
"""Bits of ball arithmetic beyond those asked for. With too few, floors stay undecided and the precision doubles."""

Cumulated = Callable[[], list[arb]]
"""Computes F(0), F(1), ... at the current precision: increasing numbers, at most 1."""


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceTable:
    """Inversion over a list of outcomes: outcome j if F(j - 1) <= U < F(j), and the index past the end if U is larger.

    Attributes:
        cumulated: Computes the balls of F.
        floors: uint64, the first 64 digits of every F.
        certain: Whether the outcomes' probabilities add up to 1. Then the F of the last outcome is omitted, and the
            index past the end of `floors` is the last outcome.
    """

    cumulated: Cumulated
    floors: npt.NDArray[np.uint64]
    certain: bool

    @classmethod
    def build(cls, cumulated: Cumulated, *, certain: bool) -> "ChoiceTable":
        """Certify the first 64 digits of every F.

        Args:
            cumulated: As the attribute. If `certain`, omit the last outcome; its cumulative probability is 1.
            certain: Whether the outcomes' probabilities add up to 1.
        Raises:
            SolverError: the largest precision does not decide some digits.
        """
        return cls(cumulated, np.array(_floors(cumulated, 64), dtype=np.uint64), certain)

    def choose(
        self, words: npt.NDArray[np.uint64], digits: Callable[[int], Iterator[int]]
    ) -> npt.NDArray[np.int64]:
        """The outcome of each uniform number.

        Args:
            words: [n], the first 64 digits.
            digits: Gives all digits of the i-th number; called if the first 64 do not decide.
        Returns:
            [n], the index of each outcome.
        """
        # F > U if F's floor is above the word, and F < U if it is below. Equal digits do not decide.
        outcome = np.searchsorted(self.floors, words, side="left").astype(np.int64)
        inside = outcome < self.floors.size
        equal = np.zeros(words.size, dtype=np.bool_)
        equal[inside] = self.floors[outcome[inside]] == words[inside]
        for i in np.flatnonzero(equal).tolist():
            outcome[i] = self._exactly(digits(i))
        return outcome

    def _exactly(self, digits: Iterator[int]) -> int:
        uniform, bits = 0, 0
        for word in digits:
            uniform, bits = uniform << 64 | word, bits + 64
            floors = _floors(self.cumulated, bits)
            if uniform not in floors:
                return sum(floor < uniform for floor in floors)
        raise SolverError("A draw was not decided by all its digits. Check that they come from a cipher.")


def _floors(cumulated: Cumulated, bits: int) -> list[int]:
    working = bits + _GUARD_BITS
    while working <= MAX_PRECISION:
        with precision(working):
            floors = [certified_floor(ball * power_of_two(bits)) for ball in cumulated()]
        if all(floor is not None for floor in floors):
            return [floor for floor in floors if floor is not None]
        working *= 2
    raise SolverError(
        f"A choice has probabilities whose first {bits} bits are undecided. Change a parameter of the noise slightly."
    )


def is_below(bound: Callable[[], arb], word: int, digits: Callable[[], Iterator[int]]) -> bool:
    """Whether a uniform number lies below a bound, exactly.

    Args:
        bound: Computes the ball of a number, at the current precision. If the number is 1 or more, the result is true.
        word: The first 64 digits of the uniform number.
        digits: Gives all its digits; called if the first 64 do not decide.
    """
    verdict = _compared(bound, word, 64)
    if verdict is not None:
        return verdict
    uniform, bits = 0, 0
    for more in digits():
        uniform, bits = uniform << 64 | more, bits + 64
        verdict = _compared(bound, uniform, bits)
        if verdict is not None:
            return verdict
    raise SolverError("A draw was not decided by all its digits. Check that they come from a cipher.")


def _compared(bound: Callable[[], arb], uniform: int, bits: int) -> bool | None:
    with precision(bits + _GUARD_BITS):
        ball = bound() * power_of_two(bits)
        if ball >= uniform + 1:
            return True
        if ball <= uniform:
            return False
    return None
