"""Distances and errors of off-spine areas in Rhode Island, step by step as sections 4 to 6 make the spine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.budget import Strategy, load_strategy_preset
from tallyveil.budget.guarantees import cost_parameters
from tallyveil.budget.spine.variance import AreaAccuracy, family_accuracies, measured_variances, totals_summed
from tallyveil.budget.strategy import Mechanism
from tallyveil.geography import (
    Branch,
    BypassRule,
    EntityFamily,
    GroupByDistance,
    GroupByMembership,
    OptimisedSpine,
    Spine,
    off_spine_distances,
    optimise_spine,
)
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.optimise import Step
from tallyveil.products.topdown.run.spine_inputs import read_families, read_geography
from tallyveil.schema import load_preset
from tallyveil_studies.exhibit import Findings, StudyInputs

_BLOCK_FILE: Final = "ri_2010_blocks.parquet"
_ENTITY_FILE: Final = "ri_2010_entities.parquet"
_GEOLEVELS: Final = ("US", "State", "County", "Tract", "Block_Group", "Block")
_OWN: Final = ("place", "county_subdivision", "school_district", "tribal_area")
_OTHERS: Final = ("congressional_district", "state_house", "state_senate", "zcta")
_PRESET: Final = "redistricting-us"
_GAUSSIAN: Final = load_strategy_preset(_PRESET).strategy
_EPSILON: Final = Fraction(1714, 100)
"""The epsilon published for the redistricting data at delta 1e-10, here of a strategy without a delta."""
_SCHEMA: Final = "pl94-persons"
_BRANCH: Final = Branch("tribal_area", "State", "AIAN")
_BLOCK_GROUPS: Final = GroupByMembership(_OWN, "Block_Group", "Block")
_TRACT_GROUPS: Final = GroupByDistance(_OWN, "Tract_Group", "Tract")
_SPINES: Final[dict[str, tuple[Step, ...]]] = {
    "census spine": (),
    "AIAN spine": (_BRANCH,),
    "optimised block groups": (_BRANCH, _BLOCK_GROUPS),
    "and tract groups": (_BRANCH, _BLOCK_GROUPS, _TRACT_GROUPS),
}


def plain_spine(inputs: StudyInputs) -> Spine:
    """The census spine of Rhode Island.

    Raises:
        MissingDataError: the file of blocks is missing.
    """
    (path,) = inputs.files("Rhode Island's spine", (_BLOCK_FILE,))
    return read_geography(path, _GEOLEVELS, ())


def distances(inputs: StudyInputs) -> Findings:
    """Mean and greatest off-spine distance of every family, after each step.

    Raises:
        MissingDataError: a file is missing.
    """
    state = _state(inputs)
    rows = []
    for name, steps in _SPINES.items():
        optimised = optimise_spine(state.spine, state.families, steps)
        # Also families that no group is made for, so that side effects show.
        for family in state.families:
            off_spine = off_spine_distances(optimised.spine, family.reordered(optimised.rows))
            rows.append(
                {
                    "spine": name,
                    "areas": family.name,
                    "number": family.n_entities,
                    "mean": off_spine.mean,
                    "median": off_spine.quantile(1, 2),
                    "greatest": off_spine.maximum,
                }
            )
    return Findings(
        {"rhode-island-distances": pl.DataFrame(rows)},
        notes=(
            "Groups are made for places, county subdivisions, school districts and tribal areas. The paper prints no "
            "distances; it says that the steps lower them.",
        ),
    )


def errors(inputs: StudyInputs) -> Findings:
    """Exact standard deviations of totals after each step, before and after bypassing.

    Raises:
        MissingDataError: a file is missing.
    """
    state = _state(inputs)
    frames = [
        _errors(state, name, case, case.rule if bypassing else None)
        for case in _cases()
        # Without tract groups: they add a geolevel that the strategy has no share for.
        for name in list(_SPINES)[:3]
        for bypassing in (False, True)
    ]
    return Findings(
        {"rhode-island-errors": pl.concat(frames)},
        notes=(
            "Standard deviations of totals in persons, by weighted least squares with all measurements. No noise is "
            "drawn, and the variance of the discrete Laplace law is taken as twice its scale squared.",
            f"Shares of the geolevels are those of {_PRESET}, with rho = {float(_GAUSSIAN.total):.4f} for Gaussian "
            f"noise, where the total of the US is published, and epsilon = {float(_EPSILON)} for Laplace noise. "
            "Geolevels are those of the census spine, so block groups are the published ones.",
            "Production's queries differ by geolevel, so Theorem 2 does not apply to them. It applies where every "
            "geolevel measures the queries of the State.",
            "Epsilon at three deltas follows from the whole budget alone, which bypassing does not change.",
        ),
    )


@dataclass(frozen=True, slots=True)
class _NoiseCase:
    name: str
    strategy: Strategy
    rule: BypassRule
    exact: tuple[str, ...] = ()


def _cases() -> tuple[_NoiseCase, ...]:
    # The same shares with the other noise; only total and mechanism differ.
    laplace = replace(_GAUSSIAN, mechanism=Mechanism.DISCRETE_LAPLACE, total=_EPSILON)
    # Equal queries are what Theorem 2 supposes.
    state = _GAUSSIAN.shares_of("State")
    equal = laplace.with_shares([(name, share, state) for name, share in laplace.geolevel_shares])
    return (
        _NoiseCase("Gaussian, production's queries", _GAUSSIAN, BypassRule.SINGLE_CHILD, ("US",)),
        _NoiseCase("Laplace, production's queries", laplace, BypassRule.PURE_DP),
        _NoiseCase("Laplace, equal queries", equal, BypassRule.PURE_DP),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _RhodeIsland:
    spine: Spine
    families: tuple[EntityFamily, ...]


def _state(inputs: StudyInputs) -> _RhodeIsland:
    paths: Sequence[Path] = inputs.files("Rhode Island's areas", (_BLOCK_FILE, _ENTITY_FILE))
    spine = read_geography(paths[0], _GEOLEVELS, ())
    return _RhodeIsland(spine, read_families(paths[1], spine, (*_OWN, *_OTHERS)))


def _errors(state: _RhodeIsland, name: str, case: _NoiseCase, rule: BypassRule | None) -> pl.DataFrame:
    shares = dict(case.strategy.geolevel_shares)
    cost = cost_parameters(case.strategy)
    # The whole budget's parameters: bypassing moves shares and does not change the sum on any path.
    parameters = {name: value for name, value in cost.items() if name != "geolevel"}
    optimised = optimise_spine(state.spine, state.families, _SPINES[name], shares=shares, bypassing=rule)
    return pl.DataFrame(
        [
            {
                "noise and queries": case.name,
                "spine": name,
                "bypassing": rule is not None,
                "areas": accuracy.name,
                "number": accuracy.areas,
                "mean": accuracy.mean,
                "greatest": accuracy.greatest,
                **parameters,
            }
            for accuracy in _accuracies(state, optimised, case)
        ]
    )


def _accuracies(state: _RhodeIsland, optimised: OptimisedSpine, case: _NoiseCase) -> tuple[AreaAccuracy, ...]:
    """Accuracy of the geolevels of the census spine and of all families, on a spine made from it."""
    # The variance of a total uses every query that sums to it, as a release's estimate does.
    summed = totals_summed(load_preset(_SCHEMA), case.strategy)
    variances = measured_variances(
        optimised.spine, case.strategy, summed, shares=optimised.shares, exact=case.exact
    )
    # Geounits of the census spine as areas: on the spine that is made they may be off it.
    levels = [geounits_as_entities(state.spine, level) for level in range(state.spine.n_levels)]
    families = [family.reordered(optimised.rows) for family in (*levels, *state.families)]
    return family_accuracies(variances, families)
