"""What the counts of a part should be near in the children of a family, such as the householders of block groups.

A child's count y should be near a weighted mean of two numbers. One is the parent's y times the child's share of a
base: of the fixed counts of the group, or of the adults among the residents of units. Call it q. Its variance is set to
0.5 + 0.05 q + 0.01 q^2, which is a choice and not an estimate: households of neighbouring places are alike, but not
equal. The other number is the sum of the noisy answers that make up the cell. If the rest of each group is a sum of no
more answers on average, the other number is the mean of two numbers: this sum, and the fixed count of the group less
the noisy sum of the rest. Each has a weight in proportion to the number of answers in the other. Noisy answers are left
out of a family where none of its cells would give them 4 % of the weight: for a block, that would be hundreds of
answers for one count, and they would change little. A root has no parent. Its q is the base times the measured share of
the part in the whole base.

A coarser query may have measured the total of the part in a child, with less noise than the sum of all cells has. This
noisy total is then a target of its own, with its own variance. It is left out of a family where it would have less than
4 % of the weight against the total of the cells' targets in every child.

Worked case: a tract has 30 householders among 100 adults, and one of its block groups has 40 of these adults. So q is
12, and its variance 0.5 + 0.6 + 1.44 = 2.54. A noisy sum of 15 with variance 7.62 gets a quarter of the weight. The
target is 12.75.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.outer_pass import Prior
from tallyveil.estimation.leaf_lift import Totals
from tallyveil.measurements.answers import MeasurementSource
from tallyveil.postprocess.passes.part_answers import PartAnswers

# Below 4 % the answers move the target little; a block would need hundreds of draws for it. Half draws far more.
SMALLEST_WEIGHT: Final = 0.04
"""Noisy answers are left out of a family where they would have less weight than this in every cell."""


FIRST: Final = np.zeros(1, dtype=np.int64)
"""The one column of answers about the whole part."""


@dataclass(frozen=True, slots=True, eq=False)
class PartTargets:
    """Where the targets of a part come from at one geolevel.

    Attributes:
        source: Source of the noisy answers.
        answers: Noisy answers whose sums are the cells of the part, if there are some at this geolevel.
        rest: Noisy answers of the same query whose sums are the rest of each group, if they are no more.
        total: Noisy answers whose sum is the whole part, of another query.
        prior: What is known before the noisy answers. "none": nothing, where there are noisy answers about cells.
    """

    source: MeasurementSource
    answers: PartAnswers | None
    rest: PartAnswers | None
    total: PartAnswers | None
    prior: Prior

    def near(
        self, near: Floats, fixed: Integers, children: slice, numbers: Integers
    ) -> tuple[Floats, Floats]:
        """The targets of a family and their variances, both of shape (children, columns).

        Args:
            near: The parent's counts times the children's shares of the base, of the same shape.
            fixed: The children's fixed counts of the groups, of the same shape.
            children: The children.
            numbers: Numbers of the columns among all columns of the pass.
        """
        # A chosen spread and no estimate (see above): 0.5 for small counts, 1 % of the square for large ones.
        variance = 0.5 + 0.05 * near + 0.01 * near**2
        if self.answers is None:
            return near, variance
        noise = self._noise(self.answers, children, numbers)
        weight = (
            np.where(np.isfinite(noise), 1.0, 0.0) if self.prior == "none" else variance / (variance + noise)
        )
        # Not drawn at all where it would say too little, which saves most of the time of a pass.
        if not bool((weight >= SMALLEST_WEIGHT).any()):
            return near, variance
        noisy = self._noisy(self.answers, fixed, children, numbers)
        # Inverse-variance weights: the mean moves by `weight`, and its variance shrinks by the same share.
        return near + weight * (noisy - near), np.where(weight < 1, variance * (1 - weight), noise)

    def _noise(self, answers: PartAnswers, children: slice, numbers: Integers) -> Floats:
        """Variance of what the noisy answers say of each cell."""
        noise = answers.variance(children, numbers)
        return noise if self.rest is None else noise * _weight(answers, self.rest, numbers)

    def _noisy(self, answers: PartAnswers, fixed: Integers, children: slice, numbers: Integers) -> Floats:
        """What the noisy answers say of each cell."""
        sums = answers.sums(self.source, children, numbers).astype(np.float64)
        if self.rest is None:
            return sums
        # Fixed count less the noisy rest is a second, independent measurement of the same cell.
        left = fixed - self.rest.sums(self.source, children, numbers)
        return left + _weight(answers, self.rest, numbers) * (sums - left)

    def totals(self, children: slice, variance: Floats) -> Totals | None:
        """The targets of the totals of a family; None where they would say too little.

        Args:
            children: The children.
            variance: Variances of the targets of the cells, shape (children, columns).
        """
        if self.total is None:
            return None
        noise = self.total.variance(children, FIRST)[:, 0]
        spread = variance.sum(axis=1)
        # All children or none: totals of some siblings alone would bias those of the others.
        if not bool(np.isfinite(noise).all() and (spread >= SMALLEST_WEIGHT * (spread + noise)).any()):
            return None
        return Totals(self.total.sums(self.source, children, FIRST)[:, 0].astype(np.float64), noise)

    def measured_total(self, geounits: slice, numbers: Integers) -> float | None:
        """Sum of the noisy answers that tell most about the total of the part; None where it is not measured."""
        for answers, columns in ((self.total, FIRST), (self.answers, numbers)):
            if answers is not None and bool(np.isfinite(answers.variance(geounits, columns)).all()):
                return float(answers.sums(self.source, geounits, columns).sum())
        return None


def _weight(answers: PartAnswers, rest: PartAnswers, numbers: Integers) -> Floats:
    """Weight of the noisy cells of the part against what the noisy rest leaves, by column."""
    sums, others = (np.diff(answer_list.begin)[numbers].astype(np.float64) for answer_list in (answers, rest))
    return others / (sums + others)
