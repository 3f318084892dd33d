"""Laws of ages, from quantiles: of householders, and of the years between a member and the householder.

The quantiles come from the American Community Survey (ages.csv, see benchmarks/household_donors.py).
"""

from csv import DictReader
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, Integers

LEAST, MOST = -90, 115
"""Range of the values: ages, and years between two people."""
EVERYWHERE: Final = 1e-4
"""Share of the law that is spread over all values, so that every age can be drawn where the quantiles leave none."""


@dataclass(frozen=True, slots=True, eq=False)
class Laws:
    """Laws of whole numbers from `LEAST` to `MOST`, and the share of women.

    Attributes:
        names: Name of each law.
        women: Shape (n,).
        below: Shape (n, `MOST - LEAST + 2`): probability of a value below `LEAST + j`.
    """

    names: tuple[str, ...]
    women: Floats
    below: Floats

    def row(self, name: str) -> int:
        """Position of a law."""
        return self.names.index(name)

    def draw(self, row: Integers, uniform: Floats, least: Integers, most: Integers) -> Integers:
        """A value of each row's law, given that it is from `least` to `most`; the shapes are (n,)."""
        low = self.below[row, least - LEAST]
        high = self.below[row, most + 1 - LEAST]
        # Conditioned on the range: the uniform number is stretched to the probabilities between its ends.
        wanted = row + low + uniform * (high - low)
        # The rows are put one after the other, which makes one rising list.
        flat = (self.below + np.arange(len(self.below))[:, None]).reshape(-1)
        # One search for all rows, whose probabilities are shifted by the number of the row.
        position = np.searchsorted(flat, wanted, side="right") - 1 - row * self.below.shape[1] + LEAST
        # Rounding can push a number just over an end of its range.
        values: Integers = np.clip(position, least, most)
        return values


@cache
def laws() -> Laws:
    """The laws that come with the package."""
    source = resources.files("tallyveil.products.dhc.made_up") / "ages.csv"
    with source.open(encoding="utf-8") as lines:
        rows = list(DictReader(lines))
    shares = [float(column) for column in rows[0] if column not in ("law", "women")]
    knots = [[float(row[str(share)]) for share in shares] for row in rows]
    return Laws(
        tuple(row["law"] for row in rows),
        np.array([float(row["women"]) for row in rows]),
        np.array([_below(np.array(quantiles), np.array(shares)) for quantiles in knots]),
    )


def _below(knots: Floats, shares: Floats) -> Floats:
    """Probability below each value, linear between the quantiles."""
    values = np.arange(LEAST, MOST + 2)
    # Equal quantiles would make a jump; a small slope keeps the order of the shares.
    rising = knots + 0.01 * np.arange(len(knots))
    between = np.interp(values, rising, shares, left=0.0, right=1.0)
    spread = (values - LEAST) / (MOST + 1 - LEAST)
    below: Floats = (1 - EVERYWHERE) * between + EVERYWHERE * spread
    return below
