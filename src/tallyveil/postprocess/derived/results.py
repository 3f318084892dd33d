"""Numbers that follow from chosen counts of a release, and tests of their equality."""

from dataclasses import dataclass, field
from typing import Literal

from tallyveil.arrays import Floats

IntervalMethod = Literal["unified", "normal", "fieller", "delta"]


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """A number that follows from chosen counts.

    Attributes:
        published: The same number of the published counts; None where they are not in the folder or divide by zero.
        estimate: The number of the unbiased estimates; None where one is lacking or the denominator's is zero. A share
            or a ratio of unbiased estimates is itself slightly biased.
        standard_error: Exact for sums and differences of counts. By the delta method for shares, ratios and differences
            of these. None where a count is not determined.
        lower, upper: Ends of the interval; None without an estimate, or if the noise allows no interval. The upper end
            of a ratio is infinite where the denominator may be zero.
        level: Coverage of the interval.
        method: How the interval was made (docs/derived-counts.md).
        lacking: Why there is no estimate; None if there is one.
    """

    published: float | None
    estimate: float | None
    standard_error: float | None
    lower: float | None
    upper: float | None
    level: float
    method: IntervalMethod
    lacking: str | None
    _slope: Floats = field(repr=False)
    _of: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Equality:
    """A test that two numbers are equal before noise.

    Attributes:
        difference: The first number minus the second.
        statistic: Estimate of the difference in standard errors; infinite if it is known exactly and is not 0.
        p_value: Probability that noise alone makes the statistic at least as large, in either direction.
        different: Whether equality is rejected: the p-value is below 1 - level.
    """

    difference: Derived
    statistic: float
    p_value: float
    different: bool
