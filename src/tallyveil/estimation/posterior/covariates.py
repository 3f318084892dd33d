"""How public numbers of blocks, such as housing units or land area, enter the model of their sizes.

*Sizes.* The logarithm of the mean of a block's law of sizes is that of its family, plus a term for each covariate: a
coefficient times the logarithm of the number where this is above 0, and a separate coefficient where it is 0.

*Emptiness.* Blocks of a tract share a probability of being empty only if they are of the same kind. For each covariate
there are six kinds at most. In the first the number is 0. The others divide the numbers above 0 at four quantiles: a
sixteenth, an eighth, a quarter and a half. With two covariates, a kind is a pair of such kinds.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, Int32s

MOST: Final = 2
"""Covariates at most: two have up to 36 kinds of blocks, and a tract has some hundred blocks."""

PARTS: Final = (1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Shares of the blocks with numbers above 0 at which a kind ends. Blocks with one housing unit are often empty, and
those with ten hardly ever. Quarters put both into one kind: in a made-up state, half as many people again were then
drawn into empty blocks."""

FARTHEST: Final = 4.0
"""A logarithm that is farther than this from the mean, in standard deviations, counts as this far. Otherwise the few
blocks beyond it would decide the effect for all others, and the mean of a law could overflow."""

ROUNDING: Final = 1e-9
"""A smaller standard deviation is due to rounding: the numbers above 0 are equal."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How the numbers of a covariate enter the model.

    Attributes:
        name: Its name.
        centre: Mean of the logarithms of its numbers above 0.
        spread: Their standard deviation; 0 if all are equal, so that they have no effect.
        begins: Smallest number of each kind of blocks after the lowest one above 0; ascending.
        has_zeros: Whether some numbers are 0, so that zeros have an effect.
    """

    name: str
    centre: float
    spread: float
    begins: list[float]
    has_zeros: bool


@dataclass(frozen=True, slots=True, eq=False)
class Covariates:
    """What covariates say of each block.

    Attributes:
        codings: How the numbers of each were coded.
        design: Regressors of the logarithm of the mean of the block's law of sizes; shape (blocks, effects). Of each
            covariate, first the logarithm in standard units, then an indicator of 0.
        kind: Kind of each block, from 0.
    """

    codings: tuple[Coding, ...]
    design: Floats
    kind: Int32s

    @classmethod
    def none(cls, n_blocks: int) -> "Covariates":
        """No covariates: all blocks are of one kind."""
        return cls((), np.zeros((n_blocks, 0)), np.zeros(n_blocks, np.int32))

    @classmethod
    def of(cls, names: tuple[str, ...], numbers: Floats) -> "Covariates":
        """Code some covariates.

        Args:
            names: Their names.
            numbers: Finite numbers of 0 or more, not all equal in any column; shape (blocks, covariates).
        """
        codings, columns, kinds = [], [], []
        for name, values in zip(names, numbers.T, strict=True):
            is_zero = values == 0
            above = values[~is_zero]
            logs = np.log(above)
            centre, spread = float(logs.mean()), float(logs.std())
            begins = np.unique(np.quantile(above, PARTS, method="higher"))
            coding = Coding(
                name, centre, spread if spread > ROUNDING else 0.0, begins.tolist(), bool(is_zero.any())
            )
            if coding.spread > 0:
                column = np.zeros(len(values))
                column[~is_zero] = np.clip((logs - centre) / spread, -FARTHEST, FARTHEST)
                columns.append(column)
            if coding.has_zeros:
                columns.append(is_zero.astype(np.float64))
            codings.append(coding)
            kinds.append(np.where(is_zero, -1, np.searchsorted(begins, values, side="right")))
        kind = np.unique(np.stack(kinds, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        # Numbers that differ by rounding alone have no effect, and may be the only ones.
        design = np.column_stack([np.zeros((len(numbers), 0)), *columns])
        return cls(tuple(codings), design, kind.astype(np.int32))
