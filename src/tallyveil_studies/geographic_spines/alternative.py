"""The decision rule that section 3.1 rejects: bypass a geounit if the expected sum of squared errors falls.

The paper says that this rule bypasses many more geounits, with a low sum but high variances of some answers, even with
shares of the geolevels in inverse proportion to their numbers of geounits. It gives no numbers and no algorithm. Here
geounits are visited as in Algorithm 3, from the finest geolevel up, and each is bypassed if the sum of the variances of
all geounits' totals does not grow by it.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
import polars as pl

from tallyveil.budget.strategy import Mechanism
from tallyveil.geography import Spine, spine_from_columns
from tallyveil.synthetic.country import make_geography
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.geographic_spines.rhode_island import plain_spine
from tallyveil_studies.geographic_spines.trees import (
    ROUNDING,
    Shares,
    shares_by_level,
    variances,
    whole_budget_parameters,
)

_BLOCKS: Final = 3_000
"""Blocks of the made-up country: the rejected rule computes all variances once for each geounit, so the time
grows with the square of it."""

_STATES: Final = 2
"""States of the made-up country."""

_SEED: Final = 4
"""Seed of the made-up country; any other makes another country of the same kind."""

_GEOLEVELS: Final = ("US", "State", "County", "Tract", "Block_Group", "Block")
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
        pl.lit("US").alias("US"), *(pl.col(n.lower()).alias(n) for n in _GEOLEVELS[1:-1]), Block="geocode"
    )
    spine = spine_from_columns({name: named[name] for name in _GEOLEVELS}, _GEOLEVELS)
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
