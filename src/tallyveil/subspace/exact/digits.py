"""Where uniform numbers come from: addresses of one release, whole batches and single numbers."""

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
        source: Keyed source. Whoever holds its key can subtract the noise.
        geolevel: 0 to 255.
        query: 0 to 65535.

    Every draw of a vector has its own number (the geounit of the address), and every uniform number a sampler
    asks for has its own site, so that nothing depends on how draws are batched.
    """

    source: "NoiseSource"
    geolevel: int
    query: int

    def numbers(self, draws: Integers, first_site: int, n_sites: int) -> npt.NDArray[np.uint64]:
        """The first 64 digits of uniform numbers, [n_draws, n_sites]; the first site is even."""
        return self.source.numbers(self.geolevel, self.query, draws, first_site, n_sites)

    def all_digits(self, draw: int, site: int) -> Iterator[int]:
        """All digits of one uniform number, 64 at a time from the first on."""
        start = site - site % 2
        words = self.source.numbers(self.geolevel, self.query, [draw], start, 2)
        yield int(words[0, site % 2])
        yield from self.source.digits(self.geolevel, self.query, draw, site)

    def trial_numbers(
        self, draws: Integers, first_trial: int, n_trials: int, n_sites: int
    ) -> tuple[npt.NDArray[np.uint64], Integers, Integers]:
        """Uniform numbers of several trials of each draw; trial t has the sites from t * n_sites on.

        Args:
            draws: [n].
            first_trial: Of each draw.
            n_trials: Of each draw.
            n_sites: Of each trial, even.
        Returns:
            (words [n * n_trials, n_sites], draw of each row, first site of each row).
        """
        words = self.numbers(draws, first_trial * n_sites, n_trials * n_sites)
        trials = np.arange(first_trial, first_trial + n_trials, dtype=np.int64)
        return (
            words.reshape(draws.size * n_trials, n_sites),
            np.repeat(draws, n_trials),
            np.tile(trials * n_sites, draws.size),
        )

    def cells(self, law: Law, draws: Integers, first: int, n: int) -> Integers:
        """Independent noise of a law, [n_draws, n], at the answers first .. first + n of the draws.

        It lies in the address kinds of cells, which numbers never share.
        """
        if first == 0:
            return np.asarray(self.source.dense(law, self.geolevel, self.query, draws, n), dtype=np.int64)
        rows = np.repeat(draws, n)
        columns = np.tile(np.arange(first, first + n, dtype=np.int64), draws.size)
        flat = self.source.at(law, self.geolevel, self.query, rows, columns)
        return flat.reshape(draws.size, n)


def prefix(digits: Iterator[int], words: int) -> tuple[int, int]:
    """(digits as one whole number, their count) of the first `words` words."""
    value = 0
    for _ in range(words):
        value = value << 64 | next(digits)
    return value, 64 * words
