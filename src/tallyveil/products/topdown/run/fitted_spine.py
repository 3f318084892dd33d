"""Shares of the geolevels of a spine that meet accuracy targets, compared with the shares of a given strategy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tallyveil.budget.fitted_shares import AccuracyTarget, FittedShares, fit_shares
from tallyveil.budget.spine.variance import TotalMeasures, family_accuracies, geolevel_accuracies
from tallyveil.budget.strategy import Strategy, parse_fraction
from tallyveil.errors import ConfigError
from tallyveil.geography import EntityFamily, Spine
from tallyveil.geography.tables import read_spine_file
from tallyveil.products.topdown.run.spine_changes import is_worse
from tallyveil.products.topdown.run.spine_inputs import read_families


@dataclass(frozen=True, slots=True, eq=False)
class FittedSpine:
    """Shares fitted to a spine.

    Attributes:
        shares: The fitted shares, and the accuracy that they reach.
        given: The strategy that they are compared with.
        losses: A sentence for each family and geolevel whose counts are less exact with the fitted shares than with the
            strategy's own shares at the same budget.
    """

    shares: FittedShares
    given: Strategy
    losses: tuple[str, ...]


def fitted(
    file: Path,
    measures: TotalMeasures,
    targets: Sequence[str],
    entities: Path | None,
    each: bool,
) -> FittedSpine:
    """Fit shares that meet targets with the least budget.

    Args:
        file: The spine.
        measures: The strategy to compare with, and the totals that are published.
        targets: "NAME=STANDARD_DEVIATION" of geolevels and families.
        entities: Table of entities; None for none.
        each: Whether every area must meet the target; otherwise the mean variance of the areas must meet it.
    Raises:
        ConfigError: a target does not have this form.
        BudgetError: as `fit_shares`.
    """
    if any(not item.partition("=")[2] for item in targets):
        raise ConfigError(
            "a target is not of the form NAME=STANDARD_DEVIATION. Give one such as Tract=5.", code="bad-flag"
        )
    wanted = [
        AccuracyTarget(item.partition("=")[0], parse_fraction(item.partition("=")[2], "--target"), each)
        for item in targets
    ]
    spine, _ = read_spine_file(file)
    plan, summed, exact = measures.strategy, measures.summed, measures.exact
    missing = (
        [target.name for target in wanted if target.name not in spine.geolevels] if entities is None else []
    )
    families = read_families(entities, spine, missing)
    shares = fit_shares(spine, families, plan, summed, wanted, exact=exact)
    # Both strategies get the budget that the targets need, so that only the division differs.
    given_measures = TotalMeasures(replace(plan, total=shares.needed), summed, exact)
    fitted_measures = TotalMeasures(shares.strategy, summed, exact)
    losses = _losses(spine, families, given_measures, fitted_measures)
    return FittedSpine(shares, plan, losses)


def _losses(
    spine: Spine, families: Sequence[EntityFamily], given: TotalMeasures, fitted: TotalMeasures
) -> tuple[str, ...]:
    """A sentence for each family and geolevel whose counts the fitted shares make less exact at the same budget."""

    with_given, with_fitted = (
        [*family_accuracies(variances, families), *geolevel_accuracies(variances)]
        for variances in (given.on(spine), fitted.on(spine))
    )
    return tuple(
        f"{after.name}: totals are less exact with these shares, with a mean standard deviation of {after.mean:,.2f} "
        f"against {before.mean:,.2f} with the strategy's own shares of the same budget"
        for before, after in zip(with_given, with_fitted, strict=True)
        # Better ones are left out: that some areas gain is what the shares were fitted for.
        if is_worse(before.mean, after.mean)
    )
