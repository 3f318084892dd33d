"""What the counts of a part should be near in the children of a family, such as the householders of block groups.

A child's count y should be near a weighted mean of two numbers. One is the parent's y times the child's share of a
base: of the fixed counts of the group, or of the adults among the residents of units. Call it q. Its variance is set to
0.5 + 0.05 q + 0.01 q^2, which is a choice and not an estimate: households of neighbouring places are alike, but not
equal. The other number is the sum of the noisy answers that make up the cell. Noisy answers are left out of a family
where none of its cells would give them 4 % of the weight: for a block, that would be hundreds of answers for one count,
and they would change little. A root has no parent; its q are the base times the share of the part in all of it, as
measured.

A coarser query may have measured the total of the part in a child, with less noise than the sum of all cells has. Then
the total T of the targets is moved towards it, cell by cell in proportion to the variances v of the targets: by
v / (sum of v + w) of the difference, where w is the variance of the measured total. This is the least-squares solution
for independent targets and total.

Worked case: a tract has 30 householders among 100 adults, and one of its block groups has 40 of these adults. So q is
12, and its variance 0.5 + 0.6 + 1.44 = 2.54. A noisy sum of 15 with variance 7.62 gets a quarter of the weight. The
target is 12.75.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.outer_pass import Prior
from tallyveil.measurements.family_answers import MeasurementSource
from tallyveil.postprocess.passes.part_answers import PartAnswers

SMALLEST_WEIGHT: Final = 0.04
"""Noisy answers are left out of a family where they would have less weight than this in every cell."""


@dataclass(frozen=True, slots=True, eq=False)
class PartTargets:
    """Where the targets of a part come from at one geolevel.

    Attributes:
        source: Source of the noisy answers.
        answers: Noisy answers whose sums are the cells of the part, if there are some at this geolevel.
        total: Noisy answers whose sum is the whole part, of another query.
        prior: What is known before the noisy answers. "none": nothing, where there are noisy answers about cells.
    """

    source: MeasurementSource
    answers: PartAnswers | None
    total: PartAnswers | None
    prior: Prior

    def near(self, near: Floats, children: slice, numbers: Integers) -> tuple[Floats, Floats]:
        """The targets of a family and their variances, both of shape (children, columns).

        Args:
            near: The parent's counts times the children's shares of the base, of the same shape.
            children: The children.
            numbers: Numbers of the columns among all columns of the pass.
        """
        variance = 0.5 + 0.05 * near + 0.01 * near**2
        if self.answers is not None:
            noise = self.answers.variance(children, numbers)
            weight = (
                np.where(np.isfinite(noise), 1.0, 0.0)
                if self.prior == "none"
                else variance / (variance + noise)
            )
            if bool((weight >= SMALLEST_WEIGHT).any()):
                noisy = self.answers.sums(self.source, children, numbers)
                near = near + weight * (noisy - near)
                variance = np.where(weight < 1, variance * (1 - weight), noise)
        if self.total is None:
            return near, variance
        return self._with_total(self.total, children, near, variance)

    def measured_total(self, geounits: slice, numbers: Integers) -> float | None:
        """Sum of the noisy answers that tell most about the total of the part; None where it is not measured."""
        for answers, columns in ((self.total, np.zeros(1, dtype=np.int64)), (self.answers, numbers)):
            if answers is not None and bool(np.isfinite(answers.variance(geounits, columns)).all()):
                return float(answers.sums(self.source, geounits, columns).sum())
        return None

    def _with_total(
        self, total: PartAnswers, children: slice, near: Floats, variance: Floats
    ) -> tuple[Floats, Floats]:
        """The targets moved towards the measured total of the part in each child."""
        one = np.zeros(1, dtype=np.int64)
        spread = variance.sum(axis=1, keepdims=True)
        both = spread + total.variance(children, one)
        if not bool((spread / both >= SMALLEST_WEIGHT).any()):
            return near, variance
        off = total.sums(self.source, children, one) - near.sum(axis=1, keepdims=True)
        return near + variance / both * off, variance * (1 - variance / both)
