"""Uniform numbers at addresses, for the samplers of one release: in batches, or digit by digit.

Problem. A sampler needs uniform numbers with as many digits as a decision takes. The result must not depend on how
draws are batched.

Steps. Each draw of a vector has a number, and each uniform number within it has a site. The noise source turns the
address (geolevel, query, draw, site) into the digits of that uniform number: the first 64 at once for whole batches,
further digits on request.

Worked case. A sampler with 4 sites for each trial uses sites 0 to 3 in trial 0 and sites 4 to 7 in trial 1, whatever
trials or draws are computed together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
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
