"""What a release guarantees of several records: of a household, and of records that the invariants tie together.

A *household* is some records that are in one finest geounit, in each of the two populations that are compared. All of
them may change at once. Where records of households are derived from those of persons, the sizes count persons.

Records change their values, also if the neighbours of the plan are unbounded: a change is a removal and an addition.

*Tied records.* What is published exactly, and public bounds, rule out that one record changes to some values alone. The
guarantee of the release compares populations that agree on the invariants and satisfy the bounds; a change that no such
population shows is not hidden by it. With a second record that changes, too, every value can be hidden that the
published numbers leave possible, if each constraint is finer than the next (docs/proofs/secrets.md, section 4). The
guarantee for two records is then the one that holds for every value of one record. Cho and Awan call it the effective
guarantee, and the number of records the semi-adjacency parameter.

Source: Cho and Awan 2024 (arXiv 2410.17468); docs/proofs/domination.md, section 5, for groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, Final

from tallyveil.accounting.costs import translate
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import Neighbours, PrivacyEvent
from tallyveil.accounting.groups import for_group
from tallyveil.accounting.numbers import claim_text, delta_text
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.errors import BudgetError
from tallyveil.plans.release import StatedPlan
from tallyveil.schema.nested_queries import determines
from tallyveil.schema.query_group import QueryGroup
from tallyveil.words.language import ENGLISH, Figure, Language

SIZES: Final = (2, 5)
"""Sizes of the groups whose guarantee is stated: a couple, and a household that few are larger than."""


def groups_of(plan: StatedPlan, event: PrivacyEvent | None) -> list[dict[str, Any]]:
    """Epsilon of several records of one finest geounit at the plan's delta: `size`, and `epsilon` rounded up.

    Args:
        plan: The plan.
        event: What is done, for one record; None if it is not known yet, because the paths of the spine are not. Then
            epsilon follows from the budget alone.
    Raises:
        BudgetError, SolverError: as `proved_epsilon`.
    """
    return [{"size": size, "epsilon": _epsilon(plan, event, size, together=True)} for size in SIZES]


def tied_of(
    plan: StatedPlan, event: PrivacyEvent | None, *, one_root: bool = False, language: Language = ENGLISH
) -> dict[str, Any] | None:
    """How many records have to change together, so that every value of one of them is hidden; None if one is enough.

    Args:
        plan: The plan.
        event: As for `groups_of`.
        one_root: Whether the coarsest geolevel is known to have a single geounit.
        language: Of the sentence.

    Returns:
        `constraints` in words; `records`, 2, or None if the constraints are such that nothing is known; `epsilon` at
        the plan's delta for populations that differ in that many, rounded up; and a `sentence`.
    Raises:
        BudgetError, SolverError: as `proved_epsilon`.
    """
    constraints = _constraints(plan, language, one_root=one_root)
    if not constraints:
        return None
    words = [item.words for item in constraints]
    tie = {"constraints": language.say(" and ").join(words), "unit": language.say(plan.schema.unit.one)}
    if not _are_nested(plan, constraints):
        return {
            "constraints": words,
            "records": None,
            "epsilon": None,
            "sentence": language.say(
                "since {constraints}, a change of one {unit}'s record may need others to change too; how many others "
                "is not known for such constraints",
                **tie,
            ),
        }
    epsilon = _epsilon(plan, event, 2, together=False)
    return {
        "constraints": words,
        "records": 2,
        "epsilon": epsilon,
        "sentence": language.say(
            "since {constraints}, a change of one {unit}'s record may need others to change too; one other is always "
            "enough, and for populations that differ in two records epsilon <= {epsilon} at delta = {delta}",
            epsilon=Figure(claim_text(epsilon, 3)),
            delta=delta_text(plan.delta),
            **tie,
        ),
    }


@dataclass(frozen=True, slots=True)
class _Constraint:
    """Counts that the records have to agree with.

    Attributes:
        words: What holds, in words.
        group: The query.
        level: Index of the geolevel, counted from the root.
        is_exact: Whether the counts are published exactly; otherwise they have bounds.
    """

    words: str
    group: QueryGroup
    level: int
    is_exact: bool


def _constraints(plan: StatedPlan, language: Language, *, one_root: bool) -> list[_Constraint]:
    """The invariants and bounds that a change of one record may break."""
    # On a spine of its own, the geolevels of the geography have other names. Their order is that of the geography.
    geolevels = plan.geolevels if plan.spine is None else plan.spine.original
    constraints = [
        _Constraint(
            language.say(
                "{query} at {geolevels} is exact", query=item.query, geolevels=", ".join(item.geolevels)
            ),
            plan.query(item.query),
            max(map(geolevels.index, item.geolevels)),
            True,
        )
        for item in plan.invariants
    ]
    constraints += [
        _Constraint(
            language.say("the bounds {name} hold", name=item.name),
            plan.query(item.query),
            geolevels.index(item.geolevel),
            False,
        )
        for item in plan.bounds
    ]
    # The number of all records in the only root stays what it is, if a record changes its value.
    stays = one_root and plan.neighbours is Neighbours.BOUNDED
    return [
        item
        for item in constraints
        if not (stays and item.level == 0 and all(factor.is_sum for factor in item.group.factors))
    ]


def _are_nested(plan: StatedPlan, constraints: Sequence[_Constraint]) -> bool:
    """Whether the counts of one of any two constraints add up to those of the other, leaving out what is fixed."""
    zeros = plan.schema.barred_levels()

    def adds_up(fine: _Constraint, coarse: _Constraint) -> bool:
        if fine.level < coarse.level or fine.group.overlaps:
            return False
        return determines(fine.group, coarse.group, zeros)

    free: list[_Constraint] = []
    # The finest exact counts come first; what adds up from them holds by itself.
    for item in sorted(constraints, key=lambda item: (not item.is_exact, -item.level, -item.group.size)):
        if not any(other.is_exact and adds_up(other, item) for other in free):
            free.append(item)
    return all(adds_up(some, other) or adds_up(other, some) for some, other in combinations(free, 2))


def _epsilon(plan: StatedPlan, event: PrivacyEvent | None, size: int, *, together: bool) -> float:
    """Epsilon of several records that change value, rounded up: composed where that is known, or from the budget."""
    if event is not None:
        try:
            several = for_group(
                translate(event, plan.neighbours, Neighbours.BOUNDED), size, together=together
            )
            return proved_epsilon(several, Neighbours.BOUNDED, plan.delta).bounds.upper
        except BudgetError as error:
            # Records on paths with different noise, or noise on a lattice: only the budget is known.
            if error.code not in {"no-group", "no-translation"}:
                raise
    # A change is a removal and an addition.
    size = size if plan.neighbours is Neighbours.BOUNDED else 2 * size
    # Of several records the weighted distances add up, so that rho is at most its multiple by the square.
    if plan.budget_unit == "rho":
        return zcdp_to_epsilon(size**2 * plan.spent, plan.delta)
    return fraction_bounds(Fraction(size * plan.spent)).upper
