"""Uniform numbers at addresses, digit by digit, and draws of one of finitely many outcomes from their digits.

Each draw of a vector has a number, and each uniform number within it has a site. The noise source turns the address
(geolevel, query, draw, site) into the digits of that number: the first 64 at once for whole batches, further digits on
request. So no result depends on how draws are batched.

*A choice* (`ChoiceTable`). Outcomes 0, 1, ..., n - 1 have real probabilities that ball arithmetic can compute to any
precision. F(j) is the probability of the outcomes up to j, and U a uniform number. The outcome is the j with F(j - 1)
<= U < F(j), or n if U is at least F(n - 1). The first 64 digits of U are compared with the certified first 64 digits
of every F. Where they are equal to those of some F, more digits are read until they differ.

Worked case. Two outcomes have probabilities 1/2 and 1/4. U = 0.6 gives outcome 1, because 1/2 <= 0.6 < 3/4. U = 0.9
gives index 2: neither of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from flint import arb

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.noise.balls import MAX_PRECISION, certified_floor, power_of_two, precision
from tallyveil.noise.laws import Law

if TYPE_CHECKING:
    from tallyveil.noise.source import NoiseSource


@dataclass(frozen=True, slots=True)
class NoiseAddress:
    """The place of a release in the address space of its noise source.

    Attributes:
        source: Keyed source. Whoever has its key can subtract the noise.
        geolevel: 0 to 255.
        query: 0 to 65535.

    Every draw of a vector has its own number (the field geounit of the address). Every uniform number that a sampler
    uses has its own site. So nothing depends on how draws are batched.
    """

    source: "NoiseSource"
    geolevel: int
    query: int

    def numbers(self, draws: Integers, first_site: int, n_sites: int) -> npt.NDArray[np.uint64]:
        """The first 64 digits of uniform numbers, [n_draws, n_sites]. The first site must be even."""
        return self.source.numbers(self.geolevel, self.query, draws, first_site, n_sites)

    def all_digits(self, draw: int, site: int) -> Iterator[int]:
        """All digits of one uniform number, in groups of 64."""
        # Two sites share one block of the cipher, so numbers are made in pairs from an even site.
        start = site - site % 2
        words = self.source.numbers(self.geolevel, self.query, [draw], start, 2)
        yield int(words[0, site % 2])
        yield from self.source.digits(self.geolevel, self.query, draw, site)

    def trial_numbers(
        self, draws: Integers, first_trial: int, n_trials: int, n_sites: int
    ) -> tuple[npt.NDArray[np.uint64], Integers, Integers]:
        """Uniform numbers for several trials of each draw. Trial t has the sites from t * n_sites.

        Args:
            draws: [n], numbers of the draws.
            first_trial: The first trial of each draw.
            n_trials: Number of trials of each draw.
            n_sites: Number of sites of each trial, even.
        Returns:
            (words [n * n_trials, n_sites], draw of each row, first site of each row).
        """
        words = self.numbers(draws, first_trial * n_sites, n_trials * n_sites)
        trials = np.arange(first_trial, first_trial + n_trials, dtype=np.int64)
        return (
            words.reshape(draws.size * n_trials, n_sites),
            np.repeat(draws, n_trials),
            # Draws in the outer loop, trials in the inner one, as in the reshaped words.
            np.tile(trials * n_sites, draws.size),
        )

    def cells(self, law: Law, draws: Integers, first: int, n: int) -> Integers:
        """Independent noise of a law, [n_draws, n], at the answers first to first + n - 1 of the draws.

        It uses the address kinds of cells, which are different from those of uniform numbers.
        """
        if first == 0:
            return np.asarray(self.source.dense(law, self.geolevel, self.query, draws, n), dtype=np.int64)
        rows = np.repeat(draws, n)
        columns = np.tile(np.arange(first, first + n, dtype=np.int64), draws.size)
        flat = self.source.at(law, self.geolevel, self.query, rows, columns)
        return flat.reshape(draws.size, n)


def prefix(digits: Iterator[int], words: int) -> tuple[int, int]:
    """(the digits as one integer, their number) for the first `words` words."""
    value = 0
    for _ in range(words):
        value = value << 64 | next(digits)
    return value, 64 * words


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
