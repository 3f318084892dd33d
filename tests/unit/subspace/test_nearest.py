"""How near tables can be that agree on the invariants, against a search of all short vectors."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.accounting.events import Neighbours
from tallyveil.errors import BudgetError, ConstraintError
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.guarantee import (
    least_distance,
    least_size,
    nearest_tables,
    protected,
    require_pairs,
    require_record,
)
from tallyveil.subspace.lattice import Lattice, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm
from tallyveil_studies.integer_subspace.examples import delinquent_children

L1, L2 = (GeneralisedLaplace(norm, Fraction(1, 4)) for norm in Norm)
GAUSSIAN = GeneralisedGaussian(Fraction(3))
SUM = lattice_of(ConstraintSystem.from_sets([range(5)], 5, ["total"]))
TABLE = lattice_of(delinquent_children().system)
BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED


def short_vectors(n_cells: int) -> np.ndarray:
    """All vectors of entries -2 to 2 but zero, and so all of l1 norm 2 or less."""
    vectors = np.array(list(itertools.product(range(-2, 3), repeat=n_cells)))
    return vectors[np.abs(vectors).sum(axis=1) > 0]


@settings(max_examples=150)
@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(st.lists(st.integers(-2, 2), min_size=n, max_size=n), min_size=1, max_size=3)
    )
)
def test_the_least_size_and_one_record_agree_with_a_search(rows: list[list[int]]) -> None:
    matrix = np.array(rows)
    try:
        lattice = lattice_of(ConstraintSystem.from_matrix(rows))
    except ConstraintError:  # the constraints determine the table
        return
    vectors = short_vectors(matrix.shape[1])
    inside = vectors[~(vectors @ matrix.T).any(axis=1)]
    least = least_size(lattice)
    assert not (np.abs(inside).sum(axis=1) < least).any()
    assert not ((inside**2).sum(axis=1) < least).any()
    if least <= 2:  # exact: a vector attains it
        assert np.abs(inside).sum(axis=1).min() == least
        assert (inside**2).sum(axis=1).min() == least
    changed = (np.abs(inside).sum(axis=1) == 2) & (inside.sum(axis=1) == 0)
    assert nearest_tables(lattice, L1, BOUNDED).one_record == changed.any()
    added = np.abs(inside).sum(axis=1) == 1
    assert nearest_tables(lattice, L1, UNBOUNDED).one_record == added.any()


def test_nearest_tables_of_sums_and_of_margins() -> None:
    assert (least_size(SUM), least_size(TABLE)) == (2, 4)
    assert least_distance(TABLE, Norm.L1) == 4
    assert least_distance(SUM, Norm.L2) <= 2**0.5
    for law in (L1, L2, GAUSSIAN):
        assert nearest_tables(SUM, law, BOUNDED).smallest == 2
        assert nearest_tables(TABLE, law, BOUNDED).smallest == 4
    assert least_size(lattice_of(ConstraintSystem.from_matrix([[1, 2, 3]]))) == 3  # (1, 1, -1)
    cube = np.zeros((12, 2, 2, 2), dtype=np.int64)  # all two-way margins of 2 x 2 x 2: one move of size 8
    for number, axis in enumerate(range(3)):
        for i, j in itertools.product(range(2), repeat=2):
            place: list[Any] = [slice(None)] * 3
            place[(axis + 1) % 3], place[(axis + 2) % 3] = i, j
            cube[(4 * number + 2 * i + j, *place)] = 1
    found = nearest_tables(lattice_of(ConstraintSystem.from_matrix(cube.reshape(12, 8))), L1, BOUNDED)
    assert (found.at_least, found.smallest, found.one_record) == (4, 8, False)


@pytest.mark.parametrize(
    ("law", "too_small", "enough"),
    [(L1, "1", "2"), (L2, "7/5", "3/2"), (GAUSSIAN, "1", "2")],
)
def test_a_distance_below_one_record_is_refused(
    law: GeneralisedLaplace | GeneralisedGaussian, too_small: str, enough: str
) -> None:
    with pytest.raises(BudgetError, match="bounded neighbours") as caught:
        require_record(law, Fraction(too_small), BOUNDED)
    assert caught.value.code == "subspace-distance"
    require_record(law, Fraction(enough), BOUNDED)
    require_record(law, Fraction(1), UNBOUNDED)


@pytest.mark.parametrize(
    ("law", "too_small", "enough"),
    [(L1, "3", "4"), (L2, "19/10", "2"), (GAUSSIAN, "3", "4")],
)
def test_a_distance_without_tables_is_refused(
    law: GeneralisedLaplace | GeneralisedGaussian, too_small: str, enough: str
) -> None:
    with pytest.raises(BudgetError, match="protect nobody") as caught:
        require_pairs(TABLE, law, Fraction(too_small))
    assert caught.value.code == "subspace-distance"
    require_pairs(TABLE, law, Fraction(enough))
    require_pairs(SUM, law, Fraction(2))


def said(lattice: Lattice, distance: int, neighbours: Neighbours) -> str:
    return protected(nearest_tables(lattice, L1, neighbours), L1, Fraction(distance), neighbours)


def test_the_guarantee_says_whom_it_is_about() -> None:
    assert said(SUM, 2, BOUNDED).startswith("The guarantee covers the change of one record")
    assert "at least l1 distance 4 apart, which takes 2 records or more together" in said(TABLE, 4, BOUNDED)
    assert "not about one record" in said(SUM, 2, UNBOUNDED)  # a total that stays: nobody is only added
    assert "by itself this noise protects nobody" in said(TABLE, 2, BOUNDED)
