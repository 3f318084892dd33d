"""Constraints are summed upward, restricted to a support, and refused where they contradict each other."""

import hashlib

import numpy as np
import pytest

from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.constraints import ConstraintTable, refuse_conflicts
from tallyveil.products.topdown.run.inputs import read_histograms
from tallyveil.products.topdown.run.preparation import compile_constraints
from tallyveil.products.topdown.run.public import read_public
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("pl94-persons")
SPINE = spine_from_prefixes(["A1", "A2", "B1"], ("Region", "Block"), (1, 2))
HHGQ = SCHEMA.query("hhgq")
TOTAL = SCHEMA.query("total")


def table(name, query, lower, upper):
    return ConstraintTable(name, query, (np.array(lower),), (np.array(upper),))


def test_invariants_and_bounds_aresummed_upward(small_release):
    plan = load_plan(small_release)
    public = read_public(plan)
    spine = public.hierarchies.spine
    histograms = read_histograms(plan, spine)
    invariant, bounds = compile_constraints(plan, public.hierarchies, histograms, public.bounds)
    assert len(invariant.lower) == 1
    assert len(bounds.lower) == 3
    assert np.array_equal(invariant.lower[0], invariant.upper[0])
    assert invariant.lower[0].sum() == histograms[0].counts.sum()
    for level in (0, 1):
        for geounit in range(spine.n_geounits(level)):
            children = slice(*spine.child_offsets[level][geounit : geounit + 2])
            lower, upper = bounds.lower[level + 1][children], bounds.upper[level + 1][children]
            assert np.array_equal(bounds.lower[level][geounit], lower.sum(axis=0))
            unbounded = (upper >= UNBOUNDED).any(axis=0)
            assert np.array_equal(bounds.upper[level][geounit] >= UNBOUNDED, unbounded)


def test_only_answers_that_matter_reach_a_family():
    lower = np.zeros((3, 8), dtype=np.int64)
    lower[1, 5] = 2
    bound = ConstraintTable("facilities", HHGQ, (lower, lower), (lower + 9, lower + 9))
    household = np.arange(4, dtype=np.int64)
    linear = bound.on_support(1, 0, 3, household)
    # Households are in the support; type 5 is not, but somebody must be there: the family has to know.
    assert linear.lower.shape == (3, 2)
    assert linear.labels.tolist() == [0, 0, 0, 0]
    assert linear.lower[1].tolist() == [0, 2]
    assert bound.on_support(1, 2, 3, household).lower.shape == (1, 1)


def test_more_people_than_another_constraint_allows():
    one = table("facilities", HHGQ, [[0] * 8, [1] * 8], [[UNBOUNDED] * 8, [UNBOUNDED] * 8])
    other = table("invariant total", TOTAL, [[10], [7]], [[10], [7]])
    with pytest.raises(ConstraintError, match="Region 'B': facilities and invariant total"):
        refuse_conflicts([one, other], SPINE, SCHEMA)
    refuse_conflicts([one, table("invariant total", TOTAL, [[0], [8]], [[0], [8]])], SPINE, SCHEMA)


def test_fewer_people_than_an_invariant_asks_for():
    caps = table("caps", HHGQ, [[0] * 8] * 2, [[1] * 8] * 2)
    total = table("invariant total", TOTAL, [[9], [8]], [[9], [8]])
    with pytest.raises(ConstraintError, match="Region 'A': invariant total and caps"):
        refuse_conflicts([caps, total], SPINE, SCHEMA)


def test_people_asked_for_in_structural_zeros():
    query = SCHEMA.query("hhgq*votingage")
    lower = np.zeros((2, query.size), dtype=np.int64)
    impossible = query.answers_from_labels(
        {"hhgq": ["nursing"], "votingage": [SCHEMA.attributes[1].levels[0]]}, 1
    )
    lower[1, impossible] = 1
    with pytest.raises(ConstraintError, match="structural zeros"):
        refuse_conflicts([ConstraintTable("odd", query, (lower,), (lower + 5,))], SPINE, SCHEMA)


def test_bounds_are_kept_narrow_and_read_wide():
    bound = table("facilities", HHGQ, [[0] * 8, [1] * 8], [[UNBOUNDED] * 8, [5] * 8])
    assert bound.lower[0].dtype == bound.upper[0].dtype == np.int32
    lower, upper = bound.bounds_of(0, 0, 2)
    assert lower.dtype == upper.dtype == np.int64
    assert upper.tolist() == [[UNBOUNDED] * 8, [5] * 8]
    linear = bound.on_support(0, 0, 2, np.arange(4, dtype=np.int64))
    assert linear.upper[0].tolist() == [UNBOUNDED] * 8


def test_the_digest_does_not_see_how_bounds_are_kept():
    # Noise is bound to this digest: it was that of the int64 arrays.
    lower = np.array([[0, 3], [1, 2]], dtype=np.int64)
    upper = np.array([[UNBOUNDED, 3], [1, UNBOUNDED]], dtype=np.int64)
    query = SCHEMA.query("votingage")
    expected = hashlib.sha256(b"bounds\0votingage" + lower.tobytes() + upper.tobytes()).digest()
    assert ConstraintTable("bounds", query, (lower,), (upper,)).digest() == expected


def test_an_invariant_keeps_one_array():
    values = np.array([[4], [5]])
    invariant = ConstraintTable("invariant total", TOTAL, (values,), (values,))
    assert invariant.lower[0] is invariant.upper[0]


def test_sums_that_outgrow_the_narrow_form_are_exact():
    from tallyveil.postprocess.constraints import summed_upward

    blocks = np.array([[2**31 - 2], [2**31 - 2], [UNBOUNDED]])
    above, _ = summed_upward(blocks, 1, SPINE)
    assert above.tolist() == [[2**32 - 4], [UNBOUNDED]]


def test_conflicts_are_found_in_every_piece(monkeypatch):
    monkeypatch.setattr("tallyveil.postprocess.constraints.GEOUNITS_AT_ONCE", 1)
    one = table("facilities", HHGQ, [[0] * 8, [1] * 8], [[UNBOUNDED] * 8, [UNBOUNDED] * 8])
    other = table("invariant total", TOTAL, [[10], [7]], [[10], [7]])
    with pytest.raises(ConstraintError, match="Region 'B'"):
        refuse_conflicts([one, other], SPINE, SCHEMA)
