"""What a release guarantees of one secret of a record: an attribute, or the place within an area, all else being known.

The guarantee of a release is about a whole record. Populations that differ in less are harder to tell apart, because
fewer noisy answers move:

- If an *attribute* changes, only queries move that have its two levels in different groups, in the geounits of one path
  from a root to a finest geounit.
- If the *place* changes within a geounit, the answers of that geounit and of those above it stay as they are.

So the event of a secret has, for every query at a geolevel, as many answers as can move. Which answers move depends on
the two values. Of all pairs of values those are kept that no other pair covers (`_Pair`), and the worst of them counts.

A change of one record alone may change what is published exactly. Such pairs are not compared by any guarantee. What
is compared instead are populations in which *two records exchange* the secret: the invariants stay, and up to twice as
many answers move. On a spine whose steps cut or group geounits, a place may change in some areas without a change of
what is exact, and in others not. Then both are compared. docs/proofs/secrets.md has the proofs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.events import (
    IntegerSubspaceGaussian,
    Neighbours,
    PrivacyEvent,
    SequentialEvent,
    WorstEvent,
)
from tallyveil.accounting.proved import ProvedEpsilon, proved_epsilon
from tallyveil.budget.allocation import Allocation, PathShares
from tallyveil.budget.strategy import noise_event
from tallyveil.declared import mapping_of
from tallyveil.errors import ConfigError
from tallyveil.geography.bypass import BypassRule
from tallyveil.plans.release import StatedPlan
from tallyveil.printable import short_name
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

_ALL: Final = "all attributes"
_PLACE: Final = "place"
_WITHIN: Final = " within "
_EXCHANGED: Final = ", exchanged"

_Item = TypeVar("_Item")

_Moved: TypeAlias = tuple[int, ...]
"""For each measured query, how many of its answers move in a place."""

Changes: TypeAlias = Mapping[str, str | None]
"""The attributes that may change. Each has the recode within whose groups it stays, or None if it has none."""


@dataclass(frozen=True, slots=True)
class Secret:
    """What two populations may differ in.

    Attributes:
        name: Such as "age", "age within votingage", "all attributes", "place" and "place within Tract".
        changes: The attributes that may change; none if the place changes.
        within: If the place changes: the finest geolevel whose geounit stays. The record moves from one geounit below
            it to another. None if none stays: it moves from one root to another.
    """

    name: str
    changes: Changes
    within: str | None = None

    @property
    def is_place(self) -> bool:
        """Whether the place changes, and not an attribute."""
        return not self.changes


@dataclass(frozen=True, slots=True)
class SecretGuarantee:
    """What a release guarantees of a secret.

    Attributes:
        secret: The secret.
        exchanged: Whether two records exchange the secret. Otherwise one record changes it.
        event: What is measured of populations that differ in it, as a change of one record.
        invariants: What is published exactly and may change if one record alone changes the secret. If the records do
            not exchange it, only those values and places are compared that agree in this.
    """

    secret: Secret
    exchanged: bool
    event: PrivacyEvent
    invariants: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the secret; with a mark if two records exchange it."""
        return f"{self.secret.name}{_EXCHANGED if self.exchanged else ''}"

    def cost(self, plan: StatedPlan) -> Fraction:
        """The cost in the plan's unit of budget, exact."""
        return (rho_of if plan.budget_unit == "rho" else epsilon_of)(self.event)

    def proved(self, delta: Fraction) -> ProvedEpsilon:
        """The least epsilon at a delta that is proved of the event; claim the upper end.

        The lower end is of the event, too. The secret may cost less if attributes are exchanged, or if a place changes
        and geounits are bypassed.

        Raises:
            BudgetError, SolverError: as `proved_epsilon`.
        """
        # The events count the answers that move when a record changes, whatever the neighbours of the plan are.
        return proved_epsilon(self.event, Neighbours.BOUNDED, delta)


def secrets_of(plan: StatedPlan, *, one_root: bool = False) -> tuple[Secret, ...]:
    """The secrets that are listed of a plan: attributes, also within the recodes that are measured, and places.

    A plan whose records are derived from those of persons has none.

    Args:
        plan: The plan.
        one_root: Whether the coarsest geolevel is known to have a single geounit, so that no place is in another one.
    """
    # Where households are derived, the record that changes is a person's, whose secrets are no attributes of these.
    if plan.strategy.records > 1:
        return ()
    attributes = [attribute.name for attribute in plan.schema.attributes if attribute.size > 1]
    measured = {name.strip() for query in plan.strategy.every_query for name in query.split("*")}
    listed = []
    for attribute in attributes:
        listed.append(Secret(attribute, {attribute: None}))
        listed += [
            Secret(f"{attribute}{_WITHIN}{recode.name}", {attribute: recode.name})
            for recode in plan.schema.recodes
            if recode.attribute == attribute
            and recode.name in measured
            and not recode.overlapping
            # Levels that are alone in their groups could not change.
            and any(len(levels) > 1 for _, levels in recode.groups)
        ]
    if len(attributes) > 1:
        listed.append(Secret(_ALL, dict.fromkeys(attributes)))
    # From the smallest area to the whole.
    listed += [Secret(f"{_PLACE}{_WITHIN}{name}", {}, name) for name in reversed(plan.geolevels[:-1])]
    return tuple(listed if one_root else [*listed, Secret(_PLACE, {})])


def guarantee_named(plan: StatedPlan, name: str, allocation: Allocation | None = None) -> SecretGuarantee:
    """What a release guarantees of the secret of a name.

    Args:
        plan: The plan.
        name: Name of a guarantee of a listed secret, or of an attribute within any recode whose groups do not overlap.
        allocation: As for `guarantees_of`.
    Raises:
        ConfigError: there is no such secret, or one record cannot change it alone, or two need not exchange it.
    """
    secrets = {secret.name: secret for secret in secrets_of(plan)}
    for recode in plan.schema.recodes:
        if not recode.overlapping and plan.strategy.records == 1:
            full = f"{recode.attribute}{_WITHIN}{recode.name}"
            secrets.setdefault(full, Secret(full, {recode.attribute: recode.name}))
    secret_name = name.removesuffix(_EXCHANGED)
    if secret_name not in secrets:
        raise ConfigError(
            f"there is no secret {short_name(secret_name)!r}; there are {', '.join(map(repr, secrets))}. Use one of "
            "these names.",
            code="bad-flag",
        )
    there = {item.name: item for item in guarantees_of(plan, secrets[secret_name], allocation)}
    if name not in there:
        why = (
            "two records need not exchange it, or are alike in everything if they do"
            if name.endswith(_EXCHANGED)
            else "every change of it by one record alone alters what is published exactly"
        )
        names = ", ".join(map(repr, there)) or "another secret"
        raise ConfigError(f"there is no guarantee {short_name(name)!r}: {why}. Use {names}.", code="bad-flag")
    return there[name]


def guarantees_of(
    plan: StatedPlan, secret: Secret, allocation: Allocation | None = None
) -> tuple[SecretGuarantee, ...]:
    """What a release guarantees of a secret.

    Args:
        plan: The plan.
        secret: One of its secrets.
        allocation: The share of the budget that each geounit of the spine gets; None if no geounits are bypassed.

    Returns:
        Up to two guarantees: for values that one record can change alone, if there are any, and for values that two
        records have to exchange because of the invariants, if there are any.

    Privacy: computed from the plan and public geography alone.
    Source: docs/proofs/secrets.md.
    """
    drawn = (item.query for item in plan.subspace)
    queries = tuple(dict.fromkeys((*plan.strategy.every_query, *drawn)))
    groups = [plan.query(name) for name in (*queries, *(invariant.query for invariant in plan.invariants))]
    staying, leaving = (_staying(plan, secret), _leaving(plan, secret)) if secret.is_place else (set(), set())
    # What is exact of an area that the place does not leave does not change with the place. What is exact of one that
    # it may or may not leave does not have to.
    exact = [n for n, item in enumerate(plan.invariants) if not staying.issuperset(item.geolevels)]
    certain = {
        n for n in exact if not secret.is_place or not leaving.isdisjoint(plan.invariants[n].geolevels)
    }
    alone, exchanged, altered = set[_Moved](), set[_Moved](), dict[int, None]()
    for pair in _pairs_of_values(plan.schema, groups, secret.changes, len(queries)):
        # A record that changes its place leaves all answers of the one place, and enters those of the other.
        changed = [n for n in exact if (pair.exact[n].first if secret.is_place else pair.exact[n].moved)]
        altered |= dict.fromkeys(changed)
        if changed:
            exchanged.add(pair.moved(leaves=secret.is_place))
        if certain.isdisjoint(changed):
            alone.add(pair.moved(leaves=secret.is_place))
    if secret.is_place and exchanged:
        # Two records that exchange their places put one value for another in both places, and so may not differ in what
        # is exact there; but they may where both places are in one area.
        others = _pairs_of_values(
            plan.schema, groups, dict.fromkeys(plan.schema.attribute_names), len(queries)
        )
        exchanged = {
            pair.moved()
            for pair in others
            if not any(pair.exact[n].moved for n in certain) and any(pair.exact[n].first for n in exact)
        }
    names = tuple(
        f"{plan.invariants[n].query} at {', '.join(plan.invariants[n].geolevels)}" for n in sorted(altered)
    )
    return tuple(
        SecretGuarantee(
            secret,
            is_exchange,
            _event(
                plan,
                secret,
                [
                    dict(zip(queries, counts, strict=True))
                    for counts in sorted(_largest(moved, _each_at_least))
                ],
                allocation,
                exchanged=is_exchange,
            ),
            names,
        )
        for is_exchange, moved in ((False, alone), (True, exchanged))
        if moved
    )


def _staying(plan: StatedPlan, secret: Secret) -> set[str]:
    """The geolevels of the geography whose geounit is known to stay if the place changes.

    On a spine of its own, a geounit is a part of one geounit of the geography with the same geolevel, unless the
    geolevel has groups that the steps made.
    """
    if secret.within is None:
        return set()
    names = set(plan.geolevels[: plan.geolevels.index(secret.within) + 1])
    return names - _made_by_steps(plan)


def _made_by_steps(plan: StatedPlan) -> set[str]:
    """The geolevels of the spine whose geounits may be other ones than parts of those of the geography."""
    spine = {"steps": []} if plan.spine is None else mapping_of(plan.spine)
    geolevels = {spine.get("regroup", {}).get("geolevel")}
    for step in spine["steps"]:
        if step["kind"].startswith("group_by"):
            geolevels.add(step["geolevel"])
        elif step["kind"] == "branch":
            geolevels.add(step.get("parts"))
        # Parts may have the name of the geolevel that they replace.
        elif step["name"] != step["geolevel"]:
            geolevels.add(step["name"])
    return geolevels


def _leaving(plan: StatedPlan, secret: Secret) -> set[str]:
    """The geolevels of the geography whose geounit is known not to stay if the place changes.

    The place moves to another geounit of the first geolevel below `within`, and of all finer ones. If geounits of one
    of these are geounits of the geography, it leaves this geounit, and all smaller areas around the place.
    """
    original = plan.geolevels if plan.spine is None else plan.spine.original
    first = 0 if secret.within is None else plan.geolevels.index(secret.within) + 1
    whole = _whole(plan)
    coarsest = next(name for name in plan.geolevels[first:] if name in whole)
    return set(original[original.index(coarsest) :])


def _whole(plan: StatedPlan) -> set[str]:
    """The geolevels whose geounits are those of the geography on every spine that the steps may make.

    The finest is always among them.
    """
    if plan.spine is None:
        return set(plan.geolevels)
    spine, original, by_steps = mapping_of(plan.spine), plan.spine.original, _made_by_steps(plan)
    # A single child leaves all geounits where they are. The other rules put children in the place of their parent.
    moves = spine.get("bypassing") not in (None, BypassRule.SINGLE_CHILD)
    changed = {*by_steps, *(original if moves else ())}
    for step in spine["steps"]:
        if step["kind"] in ("branch", "cut_by_entities"):
            known = step["geolevel"] in original and step["geolevel"] not in by_steps
            stays = known and (step.get("parts") is not None or step.get("keep") is True)
            # Everything finer is cut, too; a geolevel of the steps may be at any height.
            changed.update(original[original.index(step["geolevel"]) + stays if known else 0 :])
    return {*original} - changed | {original[-1]}


def _event(
    plan: StatedPlan,
    secret: Secret,
    moved: Sequence[Mapping[str, int]],
    allocation: Allocation | None,
    *,
    exchanged: bool,
) -> PrivacyEvent:
    """The event of a secret: the worst of all ways in which values and paths may lie.

    Args:
        plan: The plan.
        secret: The secret.
        moved: For each pair of values, the answers of each query that move on one path.
        allocation: Of the budget; None if all paths are of one kind.
        exchanged: Whether two records exchange the secret.
    """
    # Without bypassing all paths are of one kind.
    path = tuple(share for _, share in plan.strategy.geolevel_shares)
    meeting: Sequence[tuple[PathShares, PathShares]] = [(path, path)]
    if allocation is not None:
        meeting = allocation.paths_that_meet(secret.within)
    first = 0 if secret.within is None else plan.geolevels.index(secret.within) + 1
    branches = dict.fromkeys(
        SequentialEvent(
            (
                *(event for along, counts in steps for event in _noise(plan, along, counts, first)),
                *_drawn(plan, [counts for _, counts in steps], first, exchanged=exchanged),
            )
        )
        for paths in meeting
        for pair in product(moved, moved)
        for steps in _steps(secret, paths, pair, exchanged=exchanged)
    )
    return next(iter(branches)) if len(branches) == 1 else WorstEvent(tuple(branches), "public")


_Counts: TypeAlias = Mapping[str, int]
_Step: TypeAlias = tuple[PathShares, _Counts]
"""A path, and how many answers of each query move in each geounit of it."""


def _steps(
    secret: Secret, paths: tuple[PathShares, PathShares], moved: tuple[_Counts, _Counts], *, exchanged: bool
) -> Iterator[tuple[_Step, ...]]:
    """All that moves, if a secret concerns these paths and these values; nothing if it cannot."""
    (path, second_path), (counts, second_counts) = paths, moved
    if secret.is_place:
        # In the place that a record leaves, and in the one that it enters.
        yield (path, counts), (second_path, counts)
    elif exchanged:
        yield (path, counts), (second_path, second_counts)
    # A record that changes an attribute alone stays on its path.
    elif path == second_path:
        yield ((path, counts),)


def _noise(plan: StatedPlan, path: PathShares, counts: _Counts, first: int) -> Iterator[PrivacyEvent]:
    """The measurements of the geounits of a path, from a geolevel downwards, of which answers move."""
    strategy = plan.strategy
    for geolevel, share in tuple(zip(strategy.geolevels, path, strict=True))[first:]:
        for query in strategy.queries(geolevel) if share else ():
            if counts[query]:
                yield noise_event(strategy.law(geolevel, query, share), counts[query])


def _drawn(
    plan: StatedPlan, moved: Sequence[_Counts], first: int, *, exchanged: bool
) -> Iterator[PrivacyEvent]:
    """The counts on the lattice of the invariants that move."""
    for item in plan.subspace:
        moves = any(counts[item.query] for counts in moved)
        if moves and plan.geolevels.index(item.geolevel) >= first:
            event = item.event(plan.mechanism, plan.neighbours, plan.invariants)
            # A change moves two cells by one each, an exchange four.
            distance = 4 if exchanged else 2
            if isinstance(event, IntegerSubspaceGaussian):
                yield replace(event, squared_distance=distance)
            else:
                yield replace(event, distance=Fraction(distance))


def secrets_record(plan: StatedPlan, allocation: Allocation | None = None) -> list[dict[str, Any]]:
    """What a release guarantees of each secret, as plain data: name, cost, epsilon at the plan's delta, invariants.

    Args:
        plan: The plan.
        allocation: As for `guarantees_of`.
    Raises:
        BudgetError, SolverError: as `proved_epsilon`.
    """
    rows = []
    one_root = allocation is not None and allocation.spine.n_geounits(0) == 1
    for secret in secrets_of(plan, one_root=one_root):
        for item in guarantees_of(plan, secret, allocation):
            rows.append(
                {
                    "secret": item.name,
                    "records": 2 if item.exchanged else 1,
                    "cost": str(item.cost(plan)),
                    "delta": str(plan.delta),
                    "epsilon": item.proved(plan.delta).bounds.upper,
                    "changes_invariants": list(item.invariants),
                }
            )
    return rows


@dataclass(frozen=True, slots=True)
class _Answers:
    """In how many answers of a query the record counts: with the one value, with the other, and with both alike."""

    first: int
    second: int
    both: int

    @property
    def moved(self) -> int:
        """Number of answers that move, each by one."""
        return self.first + self.second - 2 * self.both

    def times(self, other: "_Answers") -> "_Answers":
        """The same for two attributes together: groups of a query are products of groups of its attributes."""
        return _Answers(self.first * other.first, self.second * other.second, self.both * other.both)

    def covers(self, other: "_Answers") -> bool:
        """Whether at least as many answers move, whatever the other attributes are.

        With further attributes the numbers are a first + b second - 2 c both, where c is at most a and b. Such a sum is
        one of `first`, `second` and `moved` with weights of 0 or more.
        """
        return self.first >= other.first and self.second >= other.second and self.moved >= other.moved


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two values that a record may have, as far as queries and structural zeros tell them apart.

    Attributes:
        measured: For each measured query, the answers that it counts in.
        exact: The same for each invariant.
        barred: For each of the two values, the structural zeros that contain the levels so far; bit z is zero z.
        differs: Whether there are two such values that are not the same.
    """

    measured: tuple[_Answers, ...]
    exact: tuple[_Answers, ...]
    barred: tuple[int, int]
    differs: bool

    def moved(self, *, leaves: bool = False) -> "_Moved":
        """For each measured query, the answers of a place that move; all of the first value if the record leaves it."""
        return tuple(answers.first if leaves else answers.moved for answers in self.measured)

    def times(self, other: "_Pair") -> "_Pair":
        """The pair for two attributes together."""
        return _Pair(
            _products(self.measured, other.measured),
            _products(self.exact, other.exact),
            # All sets of a zero must contain the levels.
            (self.barred[0] & other.barred[0], self.barred[1] & other.barred[1]),
            self.differs or other.differs,
        )

    def covers(self, other: "_Pair") -> bool:
        """Whether no measured query moves less, invariants treat both alike, and no further zero bars this one."""
        return (
            self.exact == other.exact
            and self.differs >= other.differs
            and not any(mine & ~theirs for mine, theirs in zip(self.barred, other.barred, strict=True))
            and all(mine.covers(theirs) for mine, theirs in zip(self.measured, other.measured, strict=True))
        )


def _products(some: Sequence[_Answers], others: Sequence[_Answers]) -> tuple[_Answers, ...]:
    return tuple(mine.times(theirs) for mine, theirs in zip(some, others, strict=True))


def _pairs_of_values(
    schema: Schema, groups: Sequence[QueryGroup], changes: Changes, n_measured: int
) -> list[_Pair]:
    """The possible pairs of values that differ in the changing attributes alone, without those that others cover.

    Args:
        schema: The universe.
        groups: The measured queries, then those that are published exactly.
        changes: What may change.
        n_measured: Number of measured queries.
    """
    pairs = None
    for axis, attribute in enumerate(schema.attributes):
        factors = [group.factors[axis] for group in groups]
        # Several queries group an attribute in the same way, and levels may be many: each way is looked at once.
        ways = {factor.name: factor for factor in factors}
        place = {name: number for number, name in enumerate(ways)}
        levels = _levels(schema, axis, list(ways.values()))
        alike = {
            (tuple(map(_common, one.groups, other.groups)), (one.barred, other.barred), differs)
            for one, other, differs in _pairs_of_levels(schema, attribute, levels, changes)
        }
        of_attribute = []
        for common, barred, differs in alike:
            answers = tuple(_Answers(*common[place[factor.name]]) for factor in factors)
            of_attribute.append(_Pair(answers[:n_measured], answers[n_measured:], barred, differs))
        largest = _largest(of_attribute, _Pair.covers)
        if pairs is not None:
            largest = _largest({pair.times(other) for pair in pairs for other in largest}, _Pair.covers)
        pairs = largest
    return [pair for pair in pairs or () if pair.differs >= bool(changes) and not any(pair.barred)]


@dataclass(frozen=True, slots=True)
class _Level:
    """A level, as far as queries and structural zeros tell it apart.

    Attributes:
        groups: The groups that it is in, for each way of grouping its attribute.
        barred: The structural zeros that contain it or do not name its attribute; bit z is zero z.
    """

    groups: tuple[frozenset[int], ...]
    barred: int


def _levels(schema: Schema, axis: int, ways: Sequence[Factor]) -> list[_Level]:
    """Every level of an attribute; levels that nothing tells apart are equal."""
    layers = [np.stack(factor.layers).T.tolist() for factor in ways]
    zeros = schema.barred_levels()
    return [
        _Level(
            tuple(frozenset(codes[level]) - {-1} for codes in layers),
            sum(1 << bit for bit, zero in enumerate(zeros) if axis not in zero or zero[axis][level]),
        )
        for level in range(schema.shape[axis])
    ]


def _pairs_of_levels(
    schema: Schema, attribute: Attribute, levels: Sequence[_Level], changes: Changes
) -> Iterator[tuple[_Level, _Level, bool]]:
    """The two levels that an attribute may have in the two populations, and whether they are not the same."""
    if attribute.name not in changes:
        yield from ((level, level, False) for level in set(levels))
        return
    within, together = changes[attribute.name], [levels]
    if within is not None:
        (codes,) = (factor.codes for factor in schema.query(within).factors if factor.name == within)
        together = [
            [level for level, code in zip(levels, codes, strict=True) if code == group]
            for group in range(codes.max() + 1)
        ]
    for group in map(Counter, together):
        for one, other in product(group, group):
            # Levels that nothing tells apart are equal here, and yet not the same.
            yield one, other, one != other or group[one] > 1
        # Another attribute may be the one that changes.
        yield from ((level, level, False) for level in group)


def _common(one: frozenset[int], other: frozenset[int]) -> tuple[int, int, int]:
    return len(one), len(other), len(one & other)


def _largest(items: Iterable[_Item], covers: Callable[[_Item, _Item], bool]) -> list[_Item]:
    """The items that no other one covers. Of items that cover each other, one."""
    largest: list[_Item] = []
    for item in items:
        if not any(covers(other, item) for other in largest):
            largest = [other for other in largest if not covers(item, other)] + [item]
    return largest


def _each_at_least(some: _Moved, others: _Moved) -> bool:
    return all(mine >= theirs for mine, theirs in zip(some, others, strict=True))
