"""How a release measures totals, on the spine made by its steps and on the spine of its geography."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tallyveil.budget.spine.accuracy import measured_variances
from tallyveil.budget.spine.precision import precision_of
from tallyveil.budget.spine.variance import SpineVariances
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography import EntityFamily, GeounitShares, OptimisedSpine, Spine
from tallyveil.geography.areas import StatedGeounits, replaced_areas, sums_of_siblings

AS_GOOD_AS_EXACT = 1e9
"""Below the roots, an exactly published total gets this many times the largest precision of a measurement."""


@dataclass(frozen=True, slots=True)
class TotalMeasures:
    """The measurements that inform about totals.

    Attributes:
        strategy: What is measured. Its geolevels are those of the spine made by the steps.
        summed: For every measured query group, how many answers sum to the total (`totals_summed`).
        exact: Geolevels whose totals are published exactly.
        exact_on_geography: The same on the geography as given, where the steps cut some of them; None for `exact`.
        sums: Sums of siblings whose totals are published exactly, of geolevels that the steps cut.
    """

    strategy: Strategy
    summed: Mapping[str, int]
    exact: tuple[str, ...] = ()
    exact_on_geography: tuple[str, ...] | None = None
    sums: tuple[StatedGeounits, ...] = ()

    def tell_totals(self) -> bool:
        """Whether any measured query determines a total."""
        return any(self.summed.values())

    def by_geolevel(self, geolevels: Sequence[str]) -> dict[str, float]:
        """Precision of a total's measurement at each geolevel, root first, as `group_by_variance` takes it.

        The search needs finite numbers below the roots. An exactly published total there gets a precision far above
        all others.

        Raises:
            BudgetError: no measured query determines a total.
        """
        shares = dict(self.strategy.geolevel_shares)
        measured = {
            name: float(precision_of(self.strategy, name, shares.get(name, Fraction(0)), self.summed))
            for name in geolevels
        }
        greatest = max(measured.values())
        if greatest <= 0:
            raise BudgetError(
                "groups of geounits are chosen by the variance of totals, but no measured query tells a total. "
                "Measure one that does, such as 'total', or leave [spine.regroup] out."
            )
        for number, name in enumerate(geolevels):
            if name in self.exact:
                measured[name] = AS_GOOD_AS_EXACT * greatest if number else np.inf
        return measured

    def made_into(self, original: Spine, optimised: OptimisedSpine) -> "TotalMeasures":
        """The measures on a spine made from a geography, if these are the measures on the geography."""
        return self.with_cut(optimised.spine, original.geolevels, replaced_areas(original, optimised))

    def with_cut(
        self, spine: Spine, geolevels: Sequence[str], cut: Iterable[EntityFamily]
    ) -> "TotalMeasures":
        """The measures on a spine that cuts geounits of a geography.

        If geounits of an exact geolevel are cut, the sums of their parts are exact, where these are siblings; and so
        are the geounits of the geolevel above.

        Args:
            spine: The spine.
            geolevels: Geolevels of the geography, root first.
            cut: Those of them that are cut, each as a family on the spine with the geolevel's name.
        """
        by_name = {family.name: family for family in cut}
        exact: list[str] = []
        for name in self.exact:
            place = geolevels.index(name) if name in geolevels else 0
            above = [
                level for level in geolevels[: place + 1] if level not in by_name and level in spine.geolevels
            ]
            exact += [name] if name not in by_name else above[-1:]
        sums = (sums_of_siblings(spine, by_name[name]) for name in self.exact if name in by_name)
        return replace(
            self,
            exact=tuple(dict.fromkeys(exact)),
            exact_on_geography=self.exact,
            sums=tuple(item for item in sums if item is not None),
        )

    def on(self, spine: Spine, shares: GeounitShares | None = None) -> SpineVariances:
        """Variances of totals on a spine that has the strategy's geolevels."""
        return measured_variances(
            spine, self.strategy, self.summed, shares=shares, exact=self.exact, sums=self.sums
        )

    def on_geography(self, original: Spine) -> SpineVariances:
        """Variances of totals on the spine of the geography table, with the same budget.

        Geolevels of both spines keep their shares, scaled to sum to one. So the shares of geolevels that only the steps
        make are distributed over the others in proportion.
        """
        remaining = [
            (name, share) for name, share in self.strategy.geolevel_shares if name in original.geolevels
        ]
        whole = sum((share for _, share in remaining), Fraction(0))
        scaled = self.strategy.with_shares(
            [(name, share / whole, self.strategy.shares_of(name)) for name, share in remaining]
        )
        known = self.exact if self.exact_on_geography is None else self.exact_on_geography
        exact = tuple(name for name in known if name in original.geolevels)
        return TotalMeasures(scaled, self.summed, exact).on(original)
