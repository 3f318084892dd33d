"""Groups that facility bounds divide: the bounds then hold, the exact counts stay, and contradictions are refused."""

import numpy as np
import pytest
from tests.outer_worlds import PERSONS

from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.build import spine_from_columns
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.constraints import ConstraintTable, summed_upward
from tallyveil.postprocess.other_releases import AgreedCounts, summed_to_root
from tallyveil.postprocess.passes.exact_groups import first_groups
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.nested_queries import representative_cells

BLOCKS = {"Region": list("RRRR"), "Block": list("1234")}
SPINE = spine_from_columns(BLOCKS, list(BLOCKS))
KINDS = """
[[schema.recodes]]
name = "kinds"
attribute = "relation"
groups = { house = ["head", "other"], prison = ["prison"], college = ["college"] }
"""
PEOPLE = np.array([[5, 9, 0, 0], [0, 0, 7, 3], [2, 2, 0, 4], [0, 0, 0, 0]])
"""By block: young and grown people of houses, then of quarters."""
LOWER = np.array([[0, 0, 0], [0, 1, 2], [0, 0, 1], [0, 0, 0]])
UPPER = np.array([[UNBOUNDED, 0, 0], [0, UNBOUNDED, UNBOUNDED], [UNBOUNDED, 0, UNBOUNDED], [0, 0, 0]])


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    text = PERSONS.replace('relation = ["prison"], age = ["0", "1"]', 'relation = ["prison"], age = ["0"]')
    text = text.replace("[[schema.structural_zeros]]", KINDS + "[[schema.structural_zeros]]", 1)
    path = tmp_path_factory.mktemp("plan") / "persons.toml"
    path.write_text(text)
    return load_plan(path)


def groups(plan, people=PEOPLE, lower=LOWER, upper=UPPER):
    group = plan.query("home*grown")
    rows, answers = np.nonzero(people)
    cells = representative_cells(group, answers)
    finest = PublicCounts("Block", *compress_rows(4, rows, cells, people[rows, answers]))
    agreed = AgreedCounts("agreement", group, summed_to_root(finest, SPINE, plan.schema.size))
    sides = (summed_upward(side, 1, SPINE) for side in (lower, upper))
    table = ConstraintTable("facilities", plan.query("kinds"), *sides)
    return first_groups(plan, [table], TakenOver((agreed,)), SPINE)


def test_bounds_hold_and_exact_counts_stay(plan):
    found = groups(plan).known
    (query,) = found.queries
    cells = representative_cells(query, np.arange(query.size))
    finest = found.levels[-1]
    rows = np.repeat(np.arange(4), np.diff(finest.offsets))
    kinds, people = np.zeros((4, 3), dtype=np.int64), np.zeros((4, 4), dtype=np.int64)
    np.add.at(kinds, (rows, plan.query("kinds").answers_of(cells)[finest.groups]), finest.counts)
    np.add.at(people, (rows, plan.query("home*grown").answers_of(cells)[finest.groups]), finest.counts)
    assert np.array_equal(people, PEOPLE)
    assert ((kinds >= LOWER) & (kinds <= UPPER)).all()
    assert kinds.tolist() == [[14, 0, 0], [0, 3, 7], [4, 0, 4], [0, 0, 0]]
    assert found.levels[0].counts.sum() == PEOPLE.sum()


@pytest.mark.parametrize(
    ("place", "side", "value", "words"),
    [
        ((3, 1), "lower", 1, "'4'"),  # a facility in a block without people
        ((0, 0), "upper", 0, "'1'"),  # people in a block without houses
        ((1, 2), "lower", 10, "'2'"),  # more facilities than people
    ],
)
def test_contradictions_are_refused_before_the_spend(plan, place, side, value, words):
    sides = {"lower": LOWER.copy(), "upper": UPPER.copy()}
    sides[side][place] = value
    if side == "lower":
        sides["upper"][place] = UNBOUNDED
    with pytest.raises(ConstraintError, match="Nothing was spent") as caught:
        groups(plan, **sides)
    assert caught.value.code == "constraints-conflict"
    assert words in str(caught.value)


def test_upper_bounds_that_cannot_be_promised_are_refused(plan):
    upper = UPPER.copy()
    upper[1, 1] = 5
    with pytest.raises(ConstraintError, match="upper bounds only if they are absent"):
        groups(plan, upper=upper)


def test_classes_with_impossible_pairs_are_refused(tmp_path):
    path = tmp_path / "persons.toml"
    path.write_text(PERSONS.replace("[[schema.structural_zeros]]", KINDS + "[[schema.structural_zeros]]", 1))
    with pytest.raises(ConstraintError, match="structural zeros bar") as caught:
        groups(load_plan(path))
    assert "kinds=prison" in str(caught.value)
