"""Expected error of every measurement, computed before any data is opened."""

from dataclasses import dataclass
from fractions import Fraction

from tallyveil.budget.strategy import Strategy
from tallyveil.noise.laws import DiscreteGaussian, Law


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """Error of one measured answer of one query group at one geolevel, before estimation reduces it.

    Attributes:
        geolevel: Geolevel at which the query group is measured.
        query: Specification of the query group.
        share: Its exact budget, in the strategy's unit.
        law: Law of the noise of each answer.
        variance: Variance of the integer noise itself, in counts squared. It can be slightly below the law's parameter.
        standard_deviation: Square root of the variance, in counts.
        margin: Smallest m for which P(|noise| <= m) is proved to be at least the requested confidence.
    """

    geolevel: str
    query: str
    share: Fraction
    law: Law
    variance: float
    standard_deviation: float
    margin: int

    @property
    def parameter(self) -> Fraction:
        """Exact parameter of the law: sigma squared of the Gaussian, or scale of the Laplace."""
        return self.law.variance if isinstance(self.law, DiscreteGaussian) else self.law.scale


def expected_errors(
    strategy: Strategy, confidence: Fraction = Fraction(95, 100)
) -> tuple[ExpectedError, ...]:
    """Expected error of each geolevel and query group, in the strategy's order.

    Args:
        strategy: What will be measured.
        confidence: Coverage of the margin, between 0 and 1.

    Raises:
        BudgetError: the noise of a query would be larger than can be drawn.
    """
    return tuple(
        _expected_error(strategy, geolevel, query, confidence)
        for geolevel in strategy.geolevels
        for query in strategy.queries(geolevel)
    )


def _expected_error(strategy: Strategy, geolevel: str, query: str, confidence: Fraction) -> ExpectedError:
    law = strategy.law(geolevel, query)
    return ExpectedError(
        geolevel=geolevel,
        query=query,
        share=strategy.share(geolevel, query),
        law=law,
        variance=law.variance_float(),
        standard_deviation=law.standard_deviation(),
        margin=law.margin(confidence),
    )
