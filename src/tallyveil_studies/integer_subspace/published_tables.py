"""The three examples of the paper, as data.

Source: Dharangutte, Gao, Gong, Yu 2022, section 5 and appendix E.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm

DELINQUENT_CHILDREN: Final = ((15, 1, 3, 1), (20, 10, 10, 15), (3, 10, 10, 2), (12, 14, 7, 2))
"""Children by county (Alpha, Beta, Gamma, Delta) and education of the household head (low to very high).

Fictitious data; Federal Committee on Statistical Methodology 2005, Statistical Policy Working Paper 22, Table 4. The
paper prints 35 as the total of Gamma, whose cells sum to 25. The other totals agree with 25.
"""

ILLINOIS_COUNTIES: Final = 102
"""Number of cells of the example of one fixed total."""
ILLINOIS_EPSILON: Final = Fraction(24, 125)
"""0.192 = 4 x 0.16 x 0.3: total, share of counties, share of the population query (vintage of November 2020)."""

EXAMPLE_EPSILON: Final = Fraction(1, 4)
"""Epsilon of both Laplace laws in the other examples."""


@dataclass(frozen=True, slots=True)
class ChainExample:
    """One of the paper's examples.

    Attributes:
        name: Name for messages and files.
        system: The invariants.
        epsilon: Epsilon of both Laplace laws.
        iterations: For each norm, the paper's number of iterations to convergence. For Illinois it is the l1 burn-in,
            since the paper shows neither its total variation nor its l2 law.
    """

    name: str
    system: ConstraintSystem
    epsilon: Fraction
    iterations: tuple[tuple[Norm, int], ...]

    def law(self, norm: Norm) -> GeneralisedLaplace:
        """The Laplace law with this norm."""
        return GeneralisedLaplace(norm, self.epsilon)


def intersecting_constraints() -> ChainExample:
    """Three sums over 14 records; every intersection of their sets contains some records.

    The paper only shows a picture of three overlapping sets. This example has two records in each of the seven regions
    of three sets in general position, which makes 14. Each sum has 8 records, every two sums share 4, and all three
    share 2. Records 2 r and 2 r + 1 belong to the sums whose bits are set in r + 1.
    """
    sets = [[record for record in range(14) if (record // 2 + 1) >> bit & 1] for bit in range(3)]
    system = ConstraintSystem.from_sets(sets, 14, ("A1", "A2", "A3"))
    paper = ((Norm.L1, 10**5), (Norm.L2, 10**6))
    return ChainExample("intersecting", system, EXAMPLE_EPSILON, paper)


def delinquent_children() -> ChainExample:
    """Row and column sums of the 4 by 4 table. Cells are ordered by county, then education."""
    rows = [[4 * i + j for j in range(4)] for i in range(4)]
    columns = [[4 * i + j for i in range(4)] for j in range(4)]
    names = ("Alpha", "Beta", "Gamma", "Delta", "Low", "Medium", "High", "Very High")
    system = ConstraintSystem.from_sets(rows + columns, 16, names)
    paper = ((Norm.L1, 10**4), (Norm.L2, 10**5))
    return ChainExample("delinquent children", system, EXAMPLE_EPSILON, paper)


def illinois_counties() -> ChainExample:
    """The population of Illinois, by 102 counties."""
    system = ConstraintSystem.from_sets([range(ILLINOIS_COUNTIES)], ILLINOIS_COUNTIES, ("Illinois",))
    return ChainExample("Illinois counties", system, ILLINOIS_EPSILON, ((Norm.L1, 10**6),))
