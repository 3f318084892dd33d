"""How groups of queries lie in each other, beside the same question asked of every cell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import SchemaError
from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.nested_queries import (
    common_groups,
    counts_all_of,
    determined_answers,
    determines,
    only_answers,
    only_cell,
    representative_cells,
)
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

SIZES = (4, 3)


@st.composite
def queries(draw):
    """A query of a schema with 4 x 3 levels, with any groups that do not overlap, some levels left out."""
    factors = []
    for number, size in enumerate(SIZES):
        codes = draw(st.lists(st.integers(-1, size - 1), min_size=size, max_size=size))
        named = sorted({code for code in codes if code >= 0})
        if not named:
            codes, named = [0] * size, [0]
        own = np.array([named.index(code) if code >= 0 else -1 for code in codes], dtype=np.int32)
        factors.append(Factor(f"a{number}", f"f{number}", (own,), tuple(map(str, named))))
    return QueryGroup("any", tuple(factors))


CELLS = np.arange(12)


@given(queries(), queries())
def test_determined_queries_are_functions_of_the_answers(fine, coarse):
    mine, theirs = fine.answers_of(CELLS), coarse.answers_of(CELLS)
    is_function = all(len(set(theirs[mine == answer].tolist())) == 1 for answer in set(mine.tolist()) - {-1})
    is_function &= bool((theirs[mine < 0] < 0).all())
    # Factor by factor is never too generous. It can only be too strict, where a factor leaves out the same cells.
    assert not determines(fine, coarse) or is_function
    if (mine >= 0).all() and (theirs >= 0).all():
        assert determines(fine, coarse) == is_function
    assert counts_all_of(fine, coarse) == bool(((mine >= 0) | (theirs < 0)).all())


RECTANGLES = st.lists(st.tuples(*(st.sets(st.integers(0, n - 1), min_size=1) for n in SIZES)), max_size=2)
"""Levels of both attributes that are impossible together."""


def barred(rectangles):
    """Structural zeros, and the cells that they leave."""
    zeros = [
        {axis: np.isin(np.arange(SIZES[axis]), list(one)) for axis, one in enumerate(row)}
        for row in rectangles
    ]
    possible = np.ones(SIZES, dtype=bool)
    for zero in zeros:
        possible &= ~np.outer(zero[0], zero[1])
    return zeros, CELLS[possible.reshape(-1)]


@given(queries(), queries(), RECTANGLES)
def test_queries_may_be_determined_because_cells_are_impossible(fine, coarse, rectangles):
    zeros, cells = barred(rectangles)
    mine, theirs = fine.answers_of(cells), coarse.answers_of(cells)
    is_function = all(len(set(theirs[mine == answer].tolist())) == 1 for answer in set(mine.tolist()) - {-1})
    is_function &= bool((theirs[mine < 0] < 0).all())
    assert not determines(fine, coarse, zeros) or is_function
    assert determines(fine, coarse, zeros) or not determines(fine, coarse)


@pytest.mark.parametrize(
    ("fine", "coarse", "expected"),
    [
        ("tenure*sex", "tenure", True),
        ("sex", "tenure", False),
        ("tenure*sex", "status", False),
        ("tenure*sex", "total", False),
    ],
)
def test_units_with_a_householder_are_counted_by_the_householders_sex(fine, coarse, expected):
    schema = Schema(
        "units",
        (Attribute("status", ("owned", "rented", "vacant")), Attribute("holder", ("male", "female", "none"))),
        (
            Recode("tenure", "status", (("owned", ("owned",)), ("rented", ("rented",)))),
            Recode("sex", "holder", (("male", ("male",)), ("female", ("female",)))),
        ),
        (StructuralZero("occupied", (("status", ("owned", "rented")), ("holder", ("none",)))),),
    )
    assert determines(schema.query(fine), schema.query(coarse), schema.barred_levels()) == expected
    assert not determines(schema.query(fine), schema.query(coarse))


def test_a_zero_may_bar_levels_because_another_zero_bars_others():
    # Vacant units have no size, so units of a size are occupied; and occupied units have a householder.
    schema = Schema(
        "units",
        tuple(
            Attribute(*one)
            for one in (
                ("status", ("occupied", "vacant")),
                ("holder", ("male", "female", "none")),
                ("size", ("1", "2", "none")),
            )
        ),
        (
            Recode("tenure", "status", (("occupied", ("occupied",)),)),
            Recode("sex", "holder", (("male", ("male",)), ("female", ("female",)))),
            Recode("persons", "size", (("1", ("1",)), ("2", ("2",)))),
        ),
        (
            StructuralZero("occupied", (("status", ("occupied",)), ("holder", ("none",)))),
            StructuralZero("vacant", (("status", ("vacant",)), ("size", ("1", "2")))),
        ),
    )
    fine, sizes, holders = (schema.query(name) for name in ("tenure*sex*persons", "persons", "sex"))
    assert determines(fine, sizes, schema.barred_levels())
    assert not determines(fine, sizes, schema.barred_levels()[1:])
    assert not determines(fine, holders, schema.barred_levels())


@given(queries(), queries())
def test_common_groups_are_the_connected_parts(fine, other):
    mine, theirs = fine.answers_of(CELLS), other.answers_of(CELLS)
    if not counts_all_of(other, fine):
        with pytest.raises(SchemaError, match="leaves out cells"):
            common_groups(fine, other)
        return
    common = common_groups(fine, other).answers_of(CELLS)
    counted = np.flatnonzero(mine >= 0)
    home = {int(cell): int(cell) for cell in counted}
    for _ in counted:
        for codes in (mine, theirs):
            for cell in counted.tolist():
                alike = [home[c] for c in counted.tolist() if codes[c] == codes[cell]]
                home[cell] = min(alike)
    assert (common[mine < 0] < 0).all()
    for one in counted.tolist():
        for two in counted.tolist():
            assert (common[one] == common[two]) == (home[one] == home[two])


@given(queries())
def test_a_representative_cell_is_the_first_cell_of_its_answer(group):
    answers = np.arange(group.size)
    cells = representative_cells(group, answers)
    assert np.array_equal(group.answers_of(cells), answers)
    of_all = group.answers_of(CELLS)
    assert cells.tolist() == [int(np.flatnonzero(of_all == answer)[0]) for answer in answers]


def test_structural_zeros_leave_one_cell():
    zeros = (
        StructuralZero("a", (("status", ("vacant",)), ("sex", ("male", "female")))),
        StructuralZero("b", (("status", ("vacant",)), ("size", ("1", "2")))),
        StructuralZero("c", (("sex", ("none",)), ("size", ("none",)), ("status", ("burnt",)))),
    )
    schema = Schema(
        "units",
        (
            Attribute("status", ("occupied", "vacant", "burnt")),
            Attribute("sex", ("male", "female", "none")),
            Attribute("size", ("1", "2", "none")),
        ),
        (Recode("empty", "status", (("empty", ("vacant", "burnt")),)),),
        zeros,
    )
    status = schema.query("status")
    assert only_cell(schema, status, 1) == schema.encode([[1, 2, 2]])[0]
    assert only_cell(schema, status, 0) is None
    assert only_cell(schema, status, 2) is None
    assert only_cell(schema, schema.query("empty"), 0) is None
    assert only_cell(schema, schema.query("detailed"), int(schema.encode([[2, 2, 2]])[0])) is None


@given(queries(), st.data())
def test_only_some_answers(group, data):
    answers = data.draw(st.lists(st.integers(0, group.size - 1), min_size=1))
    found = only_answers(group, np.array(answers)).answers_of(CELLS) >= 0
    numbers = np.stack(np.unravel_index(np.array(answers), group.shape))
    mine = group.answers_of(CELLS)
    own = np.stack(np.unravel_index(np.maximum(mine, 0), group.shape))
    wanted = np.all([np.isin(one, some) for one, some in zip(own, numbers, strict=True)], axis=0)
    assert np.array_equal(found, wanted & (mine >= 0))


@given(queries(), queries(), RECTANGLES)
def test_answers_that_are_kept_are_sums(fine, coarse, rectangles):
    zeros, cells = barred(rectangles)
    mine, theirs = fine.answers_of(cells), coarse.answers_of(cells)
    kept = determined_answers(fine, coarse, zeros).answers_of(cells)
    assert np.array_equal(kept[kept >= 0], theirs[kept >= 0])
    for answer in set(kept.tolist()) - {-1}:
        assert ((kept == answer) == (theirs == answer)).all()
        inside = mine[kept == answer]
        assert (inside >= 0).all()
        assert (kept[np.isin(mine, inside)] == answer).all()
    if determines(fine, coarse, zeros):
        assert np.array_equal(kept, theirs)


def test_a_level_may_be_barred_because_another_one_is():
    schema = Schema(
        "units",
        (
            Attribute("status", ("occupied", "vacant")),
            Attribute("holder", ("male", "female", "none")),
            Attribute("couple", ("yes", "no", "none")),
        ),
        (
            Recode("home", "status", (("occupied", ("occupied",)),)),
            Recode("sex", "holder", (("male", ("male",)), ("female", ("female",)))),
            Recode("coupled", "couple", (("yes", ("yes",)),)),
        ),
        (
            StructuralZero("vacant", (("status", ("vacant",)), ("couple", ("yes", "no")))),
            StructuralZero("occupied", (("status", ("occupied",)), ("holder", ("none",)))),
        ),
    )
    zeros = schema.barred_levels()
    measured = schema.query("home*sex*coupled")
    assert determines(measured, schema.query("status*holder*coupled"), zeros)
    assert not determines(measured, schema.query("status*holder"), zeros)
