"""Distances and errors of off-spine areas in Rhode Island, step by step as sections 4 to 6 make the spine.

Beside them stands the decision rule that section 3.1 rejects: bypass a geounit if the expected sum of squared
errors falls. The paper says that this rule bypasses many more geounits, with a low sum but high variances of
some answers, even with shares of the geolevels in inverse proportion to their numbers of geounits. It gives
no numbers and no algorithm. Here geounits are visited as in Algorithm 3, from the finest geolevel up, and
each is bypassed if the sum of the variances of all geounits' totals does not grow by it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
import polars as pl

from tallyveil.budget.guarantees import cost_parameters
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.spine.presets import query_shares
from tallyveil.budget.spine.variance import AreaAccuracy, family_accuracies, measured_variances, totals_summed
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.entities import EntityFamily, off_spine_distances
from tallyveil.geography.optimise import (
    Branch,
    GroupByDistance,
    GroupByMembership,
    OptimisedSpine,
    Step,
    optimise_spine,
)
from tallyveil.geography.spine import Spine
from tallyveil.products.topdown.run.spine_design import read_families, read_geography
from tallyveil.schema.presets import load_preset
from tallyveil.synthetic.country import make_geography
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.geographic_spines.small_spines import (
    ROUNDING,
    Shares,
    shares_by_level,
    variances,
    whole_budget_parameters,
)

_BLOCK_FILE: Final = "ri_2010_blocks.parquet"
_ENTITY_FILE: Final = "ri_2010_entities.parquet"
GEOLEVELS: Final = ("US", "State", "County", "Tract", "Block_Group", "Block")
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
    return read_geography(path, GEOLEVELS, ())


def spine_and_families(inputs: StudyInputs, names: Sequence[str]) -> tuple[Spine, tuple[EntityFamily, ...]]:
    """The census spine of Rhode Island, and families of its areas.

    Raises:
        MissingDataError: a file is missing.
    """
    spine = plain_spine(inputs)
    (path,) = inputs.files("Rhode Island's areas", (_ENTITY_FILE,))
    return spine, read_families(path, spine, names)


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
        _NoiseCase("Laplace, production's queries, each spared", laplace, BypassRule.EVERY_QUERY),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _RhodeIsland:
    spine: Spine
    families: tuple[EntityFamily, ...]


def _state(inputs: StudyInputs) -> _RhodeIsland:
    return _RhodeIsland(*spine_and_families(inputs, (*_OWN, *_OTHERS)))


def _errors(state: _RhodeIsland, name: str, case: _NoiseCase, rule: BypassRule | None) -> pl.DataFrame:
    shares = dict(case.strategy.geolevel_shares)
    cost = cost_parameters(case.strategy)
    # The whole budget's parameters: bypassing moves shares and does not change the sum on any path.
    parameters = {name: value for name, value in cost.items() if name != "geolevel"}
    optimised = optimise_spine(
        state.spine,
        state.families,
        _SPINES[name],
        shares=shares,
        bypassing=rule,
        queries=query_shares(case.strategy, GEOLEVELS),
    )
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


_BLOCKS: Final = 3_000
"""Blocks of the made-up country: the rejected rule computes all variances once for each geounit, so the time
grows with the square of it."""

_STATES: Final = 2
"""States of the made-up country."""

_SEED: Final = 4
"""Seed of the made-up country; any other makes another country of the same kind."""

_RULE_GEOLEVELS: Final = ("US", "State", "County", "Tract", "Block_Group", "Block")
_NOTES: Final = (
    "Every geounit measures its total. The noise has scale 1 / share (Laplace) or variance 1 / share (Gaussian), and "
    "the shares sum to one on every path.",
    "The sum is over all geounits of the spine, and relative to the spine on which nothing is bypassed. Growth is the "
    "greatest relative growth of one geounit's variance; below 0 if all fall.",
    "Epsilon at three deltas is for one record added or removed, and follows from the whole budget: epsilon 1 "
    "(Laplace) or rho 1/2 (Gaussian), with and without bypassing.",
)

Place: TypeAlias = tuple[int, int]
"""A geolevel and a geounit of it."""

Rule: TypeAlias = Callable[[Shares, Place, list[Place]], bool]
"""Whether to bypass a geounit, from the shares, the geounit, and the geounits next below it that are measured."""


class RuleName(StrEnum):
    """The rules that are compared."""

    NONE = "nothing bypassed"
    PAPER = "the paper's rule"
    SUM_OF_SQUARES = "sum of squares"


def made_up(_: StudyInputs) -> Findings:
    """The rules on a made-up country."""
    table = make_geography(_BLOCKS, np.random.Generator(np.random.PCG64(_SEED)), _STATES)
    named = table.select(
        pl.lit("US").alias("US"),
        *(pl.col(n.lower()).alias(n) for n in _RULE_GEOLEVELS[1:-1]),
        Block="geocode",
    )
    spine = spine_from_columns({name: named[name] for name in _RULE_GEOLEVELS}, _RULE_GEOLEVELS)
    return Findings({"alternative": compared_rules(spine)}, notes=_NOTES)


def rhode_island(inputs: StudyInputs) -> Findings:
    """The rules on Rhode Island.

    Raises:
        MissingDataError: the file of blocks is missing.
    """
    return Findings({"alternative-rhode-island": compared_rules(plain_spine(inputs))}, notes=_NOTES)


def compared_rules(spine: Spine) -> pl.DataFrame:
    """A row for each law of the noise, each division of the budget, and each rule."""
    return pl.DataFrame(
        [
            row
            for mechanism in (Mechanism.DISCRETE_LAPLACE, Mechanism.DISCRETE_GAUSSIAN)
            for division, shares in _divisions(spine).items()
            for row in _rows(spine, shares, mechanism, division)
        ],
        infer_schema_length=None,
    )


def bypassed(spine: Spine, shares: Shares, rule: Rule) -> tuple[Shares, list[Place]]:
    """Algorithm 3 with a rule of choice: the shares after it, and the geounits that gave theirs away."""
    after = tuple(share.copy() for share in shares)
    given: list[Place] = []
    # For each geounit of the geolevel below: itself, or whoever has taken its share.
    below: list[list[Place]] = [[(spine.finest, block)] for block in range(spine.n_geounits(spine.finest))]
    # From the finest geolevel up, as in Algorithm 3: a parent sees what its children have become.
    for level in range(spine.finest - 1, -1, -1):
        offsets = spine.child_offsets[level]
        here: list[list[Place]] = []
        for geounit in range(spine.n_geounits(level)):
            children = [place for child in below[offsets[geounit] : offsets[geounit + 1]] for place in child]
            # Decided with the shares so far, so the order matters.
            if rule(after, (level, geounit), children):
                _give(after, (level, geounit), children)
                given.append((level, geounit))
                here.append(children)
            else:
                here.append([(level, geounit)])
        below = here
    return after, given


def rule_of(name: RuleName, spine: Spine, mechanism: Mechanism) -> Rule:
    """A rule by its name."""
    if name is RuleName.SUM_OF_SQUARES:
        return _SumOfSquares(spine, mechanism)
    if name is RuleName.NONE:
        return lambda shares, place, children: False
    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        return lambda shares, place, children: len(children) == 1
    return _theorem_2


def _theorem_2(shares: Shares, place: Place, children: list[Place]) -> bool:
    least = min(shares[level][geounit] for level, geounit in children)
    # Theorem 2: bypass if each child's share is at least (c - 1) / 2 of the parent's.
    return bool(least >= (len(children) - 1) * shares[place[0]][place[1]] / 2)


class _SumOfSquares:
    """The rejected rule. It keeps the sum of the shares it has accepted so far."""

    def __init__(self, spine: Spine, mechanism: Mechanism) -> None:
        self._spine, self._mechanism = spine, mechanism
        self._sum = np.inf

    def __call__(self, shares: Shares, place: Place, children: list[Place]) -> bool:
        # The first call: the sum with nothing bypassed.
        if not np.isfinite(self._sum):
            self._sum = _sum(variances(self._spine, shares, self._mechanism))
        # On a copy, because the rule only answers; the caller gives the share away.
        trial = tuple(share.copy() for share in shares)
        _give(trial, place, children)
        trial_sum = _sum(variances(self._spine, trial, self._mechanism))
        if trial_sum > self._sum * (1 + ROUNDING):
            return False
        self._sum = trial_sum
        return True


def _give(shares: Shares, place: Place, children: list[Place]) -> None:
    """Give a geounit's share to each of these geounits, in place."""
    level, geounit = place
    for lower, child in children:
        shares[lower][child] += shares[level][geounit]
    shares[level][geounit] = 0.0


def _sum(level_variances: Shares) -> float:
    return sum(float(variance.sum()) for variance in level_variances)


def _divisions(spine: Spine) -> dict[str, Shares]:
    sizes = [spine.n_geounits(level) for level in range(spine.n_levels)]
    # Shares in inverse proportion to the numbers of geounits, which the paper names.
    inverse = 1 / np.array(sizes)
    return {
        "equal": shares_by_level(spine, [1 / spine.n_levels] * spine.n_levels),
        "inverse to the number of geounits": shares_by_level(spine, (inverse / inverse.sum()).tolist()),
    }


def _rows(spine: Spine, shares: Shares, mechanism: Mechanism, division: str) -> list[dict[str, object]]:
    start = variances(spine, shares, mechanism)
    rows: list[dict[str, object]] = []
    for name in RuleName:
        after, given = bypassed(spine, shares, rule_of(name, spine, mechanism))
        reached = variances(spine, after, mechanism)
        ratios = [float((new / old).max()) for old, new in zip(start, reached, strict=True)]
        rows.append(
            {
                "law": mechanism.value,
                "shares": division,
                "rule": name.value,
                "bypassed": len(given),
                "of": sum(spine.n_geounits(level) for level in range(spine.finest)),
                "sum of squares": _sum(reached),
                "relative sum": _sum(reached) / _sum(start),
                "greatest variance": max(float(variance.max()) for variance in reached),
                "greatest growth": max(ratios) - 1,
                "at": spine.geolevels[int(np.argmax(ratios))],
                **whole_budget_parameters(mechanism),
            }
        )
    return rows
