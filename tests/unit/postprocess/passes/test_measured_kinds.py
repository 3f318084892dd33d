"""Kinds that measurements tell apart: sums and limits hold, nothing else changes, and the numbers are the best."""

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.outer_worlds import PERSONS

from tallyveil.budget.allocation import allocation_of
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.build import spine_from_columns
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.constraints import ConstraintTable, summed_upward
from tallyveil.postprocess.other_releases import AgreedCounts, summed_to_root
from tallyveil.postprocess.passes.exact_groups import FirstGroups, first_groups
from tallyveil.postprocess.passes.measured_kinds import measured_groups
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.nested_queries import representative_cells

BLOCKS = {"Region": list("RRRRRRR"), "Town": list("aaabbbb"), "Block": list("1234567")}
SPINE = spine_from_columns(BLOCKS, list(BLOCKS))
KINDS = ("house", "prison", "jail", "camp", "college", "hall", "inn", "hostel")
KIND_CLASSES = np.array([0, 1, 1, 1, 1, 1, 2, 2])
KIND_SORTS = np.array([0, 1, 1, 2, 3, 3, 2, 4])
RECODES = """
[[schema.recodes]]
name = "kinds"
attribute = "relation"
[schema.recodes.groups]
house = ["head", "other"]
prison = ["prison"]
jail = ["jail"]
camp = ["camp"]
college = ["college"]
hall = ["hall"]
inn = ["inn"]
hostel = ["hostel"]
[[schema.recodes]]
name = "sorts"
attribute = "relation"
[schema.recodes.groups]
house = ["head", "other"]
locked = ["prison", "jail"]
open = ["camp", "inn"]
study = ["college", "hall"]
beds = ["hostel"]
"""
QUARTERS = '"prison", "jail", "camp", "college", "hall"'
LODGING = '"inn", "hostel"'
ZERO = """[[schema.structural_zeros]]
name = "no young in prison"
cells = { relation = ["prison"], age = ["0", "1"] }
"""
QUERIES = """sex = "1/8"
"relation*sex" = "1/8"
"ages*sex" = "1/4"
"relation*ages*sex" = "1/4"
detailed = "1/4"
"""
CHANGES = (
    ('"prison", "college"]\n[[schema.attributes]]', f"{QUARTERS}, {LODGING}]\n[[schema.attributes]]"),
    ('quarters = ["prison", "college"]', f"quarters = [{QUARTERS}], lodging = [{LODGING}]"),
    (ZERO, RECODES),
    (QUERIES, 'sex = "1/4"\n"sorts*ages" = "3/4"\n'),
)
FACILITIES = np.array(
    [
        [0, 1, 0, 1, 0, 0, 1, 1],
        [0, 1, 2, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 2, 1],
        [0, 0, 1, 1, 0, 1, 1, 0],
        [0, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 2, 0, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
)
"""By block and kind: some blocks have several types of a class, and the fifth has two that nothing tells apart."""


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    def load(*changes: tuple[str, str]):
        text = PERSONS
        for old, new in (*CHANGES, *changes):
            assert old in text
            text = text.replace(old, new)
        path = tmp_path_factory.mktemp("plan") / "persons.toml"
        path.write_text(text)
        return load_plan(path)

    return load


@pytest.fixture(scope="module")
def plan(load):
    return load()


def people_of(seed: int) -> np.ndarray:
    """People of each block and kind: some in every facility, more in those of the second and the fourth kind."""
    rng = np.random.default_rng(seed)
    more = rng.integers(0, 7, FACILITIES.shape) * np.array([0, 1, 3, 1, 4, 1, 3, 1])
    people = FACILITIES + np.where(FACILITIES > 0, more, 0)
    people[:, 0] = rng.integers(0, 9, len(people))
    return people


class Source:
    """The true answers, all of adults of the first of the ages, with noise."""

    def __init__(self, plan, people: np.ndarray, deviation: float = 0.0) -> None:
        self.plan, self.people, self.deviation = plan, people, deviation

    def measure(self, geolevel, query, start, stop, answers):
        level = SPINE.level_index(geolevel)
        cells = representative_cells(self.plan.query("kinds"), np.arange(len(KINDS)))
        sums = np.zeros((SPINE.n_geounits(level), self.plan.query(query).size), dtype=np.int64)
        rows = SPINE.ancestors(level)
        for kind, answer in enumerate(self.plan.query(query).answers_of(cells)):
            np.add.at(sums, (rows, np.full(len(rows), answer)), self.people[:, kind])
        noise = np.random.default_rng([len(query), level]).normal(0, self.deviation, sums.shape)
        return SimpleNamespace(values=(sums + np.rint(noise).astype(np.int64))[start:stop, answers])


def first(plan, people: np.ndarray, *others: ConstraintTable) -> FirstGroups:
    """The groups before the spend, where people of a class are known, half of them young."""
    group = plan.query("home*grown")
    held = np.stack([people[:, number == KIND_CLASSES].sum(axis=1) for number in range(3)], axis=1)
    counts = np.stack([held // 2, held - held // 2], axis=2).reshape(len(people), -1)
    rows, answers = np.nonzero(counts)
    cells = representative_cells(group, answers)
    finest = PublicCounts("Block", *compress_rows(len(people), rows, cells, counts[rows, answers]))
    agreed = AgreedCounts("agreement", group, summed_to_root(finest, SPINE, plan.schema.size))
    upper = np.where(FACILITIES > 0, UNBOUNDED, 0)
    upper[:, 0] = UNBOUNDED
    sides = (summed_upward(side, SPINE.finest, SPINE) for side in (FACILITIES, upper))
    table = ConstraintTable("facilities", plan.query("kinds"), *sides)
    return first_groups(plan, [table, *others], TakenOver((agreed,)), SPINE)


def counted(plan, groups, query: str, level: int = 2) -> np.ndarray:
    """Counts of a query in groups, by geounit of a geolevel."""
    (known,) = groups.queries
    answers = plan.query(query).answers_of(representative_cells(known, np.arange(known.size)))
    counts = groups.levels[level]
    rows = np.repeat(np.arange(SPINE.n_geounits(level)), np.diff(counts.offsets))
    sums = np.zeros((SPINE.n_geounits(level), plan.query(query).size), dtype=np.int64)
    np.add.at(sums, (rows, answers[counts.groups]), counts.counts)
    return sums


def measured(plan, start: FirstGroups, source: Source):
    return measured_groups(start, plan, allocation_of(plan.strategy, SPINE), cast(Any, source))


@pytest.mark.parametrize("seed", range(4))
def test_exact_counts_and_limits_hold_and_nothing_else_changes(plan, seed):
    people = people_of(seed)
    start = first(plan, people)
    groups = measured(plan, start, Source(plan, people_of(seed + 1), 5.0))
    kinds, before = (counted(plan, of, "kinds") for of in (groups, start.known))
    assert np.array_equal(counted(plan, groups, "home*grown"), counted(plan, start.known, "home*grown"))
    assert (kinds >= FACILITIES).all()
    assert not kinds[:, 1:][FACILITIES[:, 1:] == 0].any()
    # One sort of quarters, or nobody: there was nothing to measure.
    assert np.array_equal(kinds[4:7:2], before[4:7:2])
    for level in range(3):
        sums = np.zeros((SPINE.n_geounits(level), len(KINDS)), dtype=np.int64)
        np.add.at(sums, SPINE.ancestors(level), kinds)
        assert np.array_equal(counted(plan, groups, "kinds", level), sums)


def test_without_noise_the_totals_are_the_true_ones(load):
    plan = load(('rho = "6"', 'rho = "600"'))
    people = people_of(1)
    start = first(plan, people)
    groups = measured(plan, start, Source(plan, people))
    assert not np.array_equal(counted(plan, start.known, "sorts"), sums_of(people))
    for level in range(3):
        assert np.array_equal(counted(plan, groups, "sorts", level), sums_of(people, level))


def sums_of(people: np.ndarray, level: int = 2) -> np.ndarray:
    """People by sort."""
    sums = np.zeros((SPINE.n_geounits(level), 5), dtype=np.int64)
    for kind, number in enumerate(KIND_SORTS):
        np.add.at(sums[:, number], SPINE.ancestors(level), people[:, kind])
    return sums


def ways(rest: int, kinds: np.ndarray) -> np.ndarray:
    """Records of each kind, in every way to divide records among facilities, by kind of facility."""
    divided = np.array([way for way in product(range(rest + 1), repeat=len(kinds)) if sum(way) == rest])
    return np.stack([divided[:, kinds == kind].sum(axis=1) for kind in range(len(KINDS))], axis=1)


PARTS = ((1, (1, 2)), (1, (3,)), (1, (4, 5)), (2, (6,)), (2, (7,)))
"""Class and kinds of each part, in order."""


def best(plan, start: FirstGroups, people: np.ndarray, source: Source) -> np.ndarray:
    """The slow way to the parts of every block: list all divisions, solve the normal equations, try all numbers."""
    allocation = allocation_of(plan.strategy, SPINE)
    before = counted(plan, start.known, "kinds")
    in_part = np.array([[kind in kinds for kind in range(len(KINDS))] for _, kinds in PARTS], dtype=float)
    covariances, possible = [], []
    for block, facilities in enumerate(FACILITIES):
        covariance, choices = np.zeros((len(PARTS),) * 2), []
        for number in (1, 2):
            kinds = np.repeat(np.arange(len(KINDS)), np.where(number == KIND_CLASSES, facilities, 0))
            rest = int(people[block, number == KIND_CLASSES].sum()) - len(kinds)
            numbers = ways(rest, kinds) @ in_part.T if len(kinds) else np.zeros((1, len(PARTS)))
            covariance += np.cov(numbers.T, bias=True)
            least = in_part @ np.where(number == KIND_CLASSES, facilities, 0)
            choices.append(np.unique(numbers + least, axis=0))
        covariances.append(covariance)
        possible.append(np.unique([quarters + lodging for quarters, lodging in product(*choices)], axis=0))
    result = before @ in_part.T
    is_open = np.array([len(choice) > 1 for choice in possible])
    for part in (0, 1, 3):
        above = None
        for level, geolevel in enumerate(SPINE.geolevels):
            ancestors = SPINE.ancestors(level)
            within = [
                np.flatnonzero((ancestors == unit) & is_open) for unit in range(SPINE.n_geounits(level))
            ]
            means, spreads = [], []
            answers = plan.schema.possible_answers(plan.query("sorts*ages"))
            for unit, blocks in enumerate(within):
                covariance = sum((covariances[block] for block in blocks), np.zeros((len(PARTS),) * 2))
                noisy = source.measure(geolevel, "sorts*ages", unit, unit + 1, answers).values[0]
                rows = [
                    [bool(KIND_SORTS[kinds[0]] == number) for _, kinds in PARTS] for number in (1, 2, 3, 4)
                ]
                value = [noisy[answers // 3 == number].sum() for number in (1, 2, 3, 4)]
                value -= np.array(
                    [before[ancestors == unit][:, number == KIND_SORTS].sum() for number in (1, 2, 3, 4)]
                )
                noise = [3 * allocation.variances(geolevel, "sorts*ages", unit, unit + 1)[0]] * 4
                for earlier in [p for p in (0, 1, 3) if p < part]:
                    rows.append([p == earlier for p in range(len(PARTS))])
                    moved = (result - before @ in_part.T)[blocks, earlier].sum()
                    value, noise = np.append(value, moved), [*noise, 1e-9]
                with_sums = covariance @ np.array(rows, dtype=float).T
                spread = np.array(rows, dtype=float) @ with_sums + np.diag(noise)
                gain = np.linalg.solve(spread, with_sums.T).T
                means.append((gain @ value)[part])
                spreads.append(max((covariance - gain @ with_sums.T)[part, part], 1e-6))
            earlier = [p for p in (0, 1, 3) if p < part]
            room = []
            for blocks in within:
                sums = {0}
                for block in blocks:
                    fits = (possible[block][:, earlier] == result[block, earlier]).all(axis=1)
                    room_here = possible[block][fits][:, part] - (before @ in_part.T)[block, part]
                    sums = {int(a + b) for a in sums for b in room_here}
                room.append(sorted(sums))
            parents = (
                np.zeros(1, int)
                if level == 0
                else SPINE.ancestors(level - 1)[SPINE.finest_offsets(level)[:-1]]
            )
            chosen = np.zeros(len(within), dtype=np.int64)
            for parent in np.unique(parents):
                units = np.flatnonzero(parents == parent)
                tries = np.array(list(product(*(room[unit] for unit in units))))
                if above is not None:
                    tries = tries[tries.sum(axis=1) == above[parent]]
                cost = ((tries - np.array(means)[units]) ** 2 / np.array(spreads)[units]).sum(axis=1)
                chosen[units] = tries[np.argmin(cost)]
            above = chosen
        result[:, part] += above
    for members in ((0, 1, 2), (3, 4)):
        held = people[:, PARTS[members[0]][0] == KIND_CLASSES].sum(axis=1)
        result[:, members[-1]] = held - result[:, members[:-1]].sum(axis=1)
    return result


def small_people(seed: int) -> np.ndarray:
    """Few people beyond one in each facility, so that all divisions can be listed."""
    more = np.random.default_rng(seed).integers(0, 3, FACILITIES.shape) * np.array([0, 1, 0, 1, 1, 0, 1, 1])
    return FACILITIES + np.where(FACILITIES > 0, more, 0)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_numbers_are_those_of_the_slow_way(plan, seed):
    people = small_people(seed)
    start, source = first(plan, people), Source(plan, people, 1.0)
    kinds = counted(plan, measured(plan, start, source), "kinds")
    parts = np.stack([kinds[:, list(members)].sum(axis=1) for _, members in PARTS], axis=1)
    assert np.array_equal(parts, best(plan, start, people, source))
    assert not np.array_equal(kinds, counted(plan, start.known, "kinds"))


def test_queries_that_tell_no_kinds_apart_change_nothing(load):
    plan = load(('"sorts*ages" = "3/4"', '"home*ages" = "3/4"'))
    start = first(plan, people_of(1))
    assert measured(plan, start, Source(plan, people_of(1))) is start.known


def test_other_promises_on_kinds_keep_the_division_by_facilities(plan):
    """Bounds on some kinds of a class were held to that division alone."""
    people, query = people_of(1), plan.query("sorts")
    upper = np.full((7, query.size), 900)
    sides = (summed_upward(side, SPINE.finest, SPINE) for side in (np.zeros_like(upper), upper))
    start = first(plan, people, ConstraintTable("sorts", query, *sides))
    assert start.division is None
    assert measured(plan, start, Source(plan, people)) is start.known
