"""Files with a row for some answers of some geounits: bounds, invariants, counts drawn on a lattice.

Each is read back as it was, and one that was changed afterwards is refused, whatever was changed.
"""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import StoreError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.areas import plain_hierarchies
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.release import SubspaceQuery
from tallyveil.postprocess import constraint_files
from tallyveil.postprocess.constraint_files import BETWEEN, EXACT, stated_constraints
from tallyveil.postprocess.constraints import ConstraintTable, summed_upward, zeros_of
from tallyveil.postprocess.families.lattice_measurements import drawn_constraint, read_drawn, write_drawn
from tallyveil.schema.counts import LARGEST_COUNT
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("race-age")
GROUP = SCHEMA.query("voting_age")
SPINE = spine_from_prefixes(["A1", "A2", "A3", "B1"], ("Region", "Block"), (1, 2))
ONE = spine_from_prefixes(["A1"], ("Region", "Block"), (1, 2))
BOUNDS = {"name": "caps", "query": "voting_age", "geolevel": "Block", "missing_upper": None}
INVARIANT = {"query": "voting_age", "geolevels": ["Region", "Block"]}
DRAWN = SubspaceQuery("voting_age", "Block", Fraction(1))
NUMBERS = st.one_of(
    st.just(0), st.integers(0, 5), st.sampled_from([2**31 - 2, 2**31 - 1, 2**31, LARGEST_COUNT])
)


def invariant_of(spine):
    (item,) = stated_constraints({"invariants": [INVARIANT], "bounds": []}, plain_hierarchies(spine))
    return item


def bounds_of(spine, number=0, **changes):
    listed = [{**BOUNDS, **changes}] * (number + 1)
    return stated_constraints({"invariants": [], "bounds": listed}, plain_hierarchies(spine))[number]


def table_of(lower, upper, spine):
    both = [summed_upward(np.array(one, dtype=np.int64), 1, spine) for one in (lower, upper)]
    return ConstraintTable("caps", GROUP, *both)


@st.composite
def bounded(draw):
    """A spine of one block or four, lower bounds, and upper bounds that may be open."""
    spine = draw(st.sampled_from([SPINE, ONE]))
    size = spine.n_geounits(1) * GROUP.size
    lower = np.array(draw(st.lists(NUMBERS, min_size=size, max_size=size)))
    more = draw(st.lists(st.one_of(NUMBERS, st.just(UNBOUNDED)), min_size=size, max_size=size))
    upper = np.where(np.array(more) >= UNBOUNDED, UNBOUNDED, lower + np.array(more) % UNBOUNDED)
    return spine, lower.reshape(-1, GROUP.size), upper.reshape(-1, GROUP.size)


@given(case=bounded(), missing=st.sampled_from([None, 0]), at_once=st.sampled_from([1, 3, 1 << 17]))
@settings(max_examples=25)
def test_bounds_are_read_as_they_were_written(tmp_path_factory, case, missing, at_once):
    spine, lower, upper = case
    root, item = tmp_path_factory.mktemp("bounds"), bounds_of(spine, 3, missing_upper=missing)
    table = table_of(lower, upper, spine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constraint_files, "GEOUNITS_AT_ONCE", at_once)
        item.write(root, table, {})
    found = item.read(root, SCHEMA, spine)
    assert found.digest() == table.digest()
    assert np.array_equal(zeros_of(found, spine).answers, upper == 0)
    rows = pl.read_parquet(BETWEEN.path(root, 3)).height
    assert rows == int(((lower != 0) | (upper != (UNBOUNDED if missing is None else 0))).sum())


@given(case=bounded(), at_once=st.sampled_from([1, 3, 1 << 17]))
@settings(max_examples=25)
def test_invariants_are_read_as_they_were_written(tmp_path_factory, case, at_once):
    spine, exact, _ = case
    root, table = tmp_path_factory.mktemp("invariants"), table_of(exact, exact, spine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constraint_files, "GEOUNITS_AT_ONCE", at_once)
        invariant_of(spine).write(root, table, {})
    found = invariant_of(spine).read(root, SCHEMA, spine)
    assert found.lower[1] is found.upper[1]
    assert [one.tolist() for one in found.lower] == [one.tolist() for one in table.lower]
    assert pl.read_parquet(EXACT.path(root, 0)).height == np.count_nonzero(exact)


@given(st.lists(st.integers(-(2**40), 2**40), min_size=8, max_size=8))
@settings(max_examples=15)
def test_drawn_counts_are_read_as_they_were_written(tmp_path_factory, counts):
    """Noisy counts may be below zero, and a zero has a row."""
    root, noisy = tmp_path_factory.mktemp("drawn"), np.array(counts).reshape(4, 2)
    write_drawn(root, DRAWN, SCHEMA, SPINE, noisy, {})
    found = read_drawn(root, DRAWN, SCHEMA, SPINE)
    assert np.array_equal(found, noisy)
    table = drawn_constraint(DRAWN, SCHEMA, SPINE, found)
    assert [one.tolist() for one in table.lower] == [
        [noisy[:3].sum(0).tolist(), noisy[3].tolist()],
        noisy.tolist(),
    ]


COUNTS = np.array([[3, 0], [0, 2], [1, 1], [4, 0]])


def written(kind, root):
    """Write one of the three kinds of file; its path, and what reads it."""
    if kind in ("bounds", "invariant"):
        item = bounds_of(SPINE) if kind == "bounds" else invariant_of(SPINE)
        item.write(root, table_of(COUNTS, COUNTS, SPINE), {})
        return item.kind.path(root, 0), lambda: item.read(root, SCHEMA, SPINE)
    write_drawn(root, DRAWN, SCHEMA, SPINE, COUNTS, {})
    path = next(root.rglob("*.parquet"))
    return path, lambda: read_drawn(root, DRAWN, SCHEMA, SPINE)


def number(kind):
    return "lower" if kind == "bounds" else "count"


FAULTS = {
    "an unknown geocode": lambda frame, _: frame.with_columns(geocode=pl.lit("Z9")),
    "no geocode": lambda frame, _: frame.with_columns(geocode=pl.lit(None, dtype=pl.String)),
    "a coarser geocode": lambda frame, _: frame.with_columns(geocode=pl.lit("A")),
    "an unknown answer": lambda frame, _: frame.with_columns(answer=pl.lit("child")),
    "no answer": lambda frame, _: frame.with_columns(answer=pl.lit(None, dtype=pl.String)),
    "a row twice": lambda frame, _: pl.concat([frame[:-1], frame[:1]]),
    "a row twice, with another number": lambda frame, name: pl.concat(
        [frame[:-1], frame[:1].with_columns(pl.col(name) + 1)]
    ),
    "no number": lambda frame, name: frame.with_columns(pl.col(name).replace(3, None)),
    "a fraction": lambda frame, name: frame.with_columns(pl.col(name) + 0.5),
    "a number as text": lambda frame, name: frame.with_columns(pl.col(name).cast(pl.String)),
    "a column less": lambda frame, name: frame.drop(name),
    "no columns": lambda frame, _: frame.select([]),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["bounds", "invariant", "drawn"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_was_changed_is_refused(tmp_path, kind, fault):
    path, read = written(kind, tmp_path)
    read()
    FAULTS[fault](pl.read_parquet(path), number(kind)).write_parquet(path)
    with pytest.raises(StoreError) as caught:
        read()
    assert caught.value.code in {"release-damaged", "input-unreadable"}
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", ["bounds", "invariant", "drawn"])
@pytest.mark.parametrize("left", [b"", b"PAR1", b"PAR1" + bytes(50) + b"PAR1"])
def test_a_file_that_was_cut_is_refused(tmp_path, kind, left):
    path, read = written(kind, tmp_path)
    path.write_bytes(left)
    with pytest.raises(StoreError):
        read()
    path.unlink()
    with pytest.raises(StoreError) as caught:
        read()
    assert caught.value.code in {"bounds-missing", "measurements-missing"}


def test_drawn_counts_of_fewer_answers_are_of_another_release(tmp_path):
    path, read = written("drawn", tmp_path)
    pl.read_parquet(path)[1:].write_parquet(path)
    with pytest.raises(StoreError) as caught:
        read()
    assert caught.value.code == "measurements-mismatch"


def test_an_open_upper_bound_is_no_damage(tmp_path):
    path, read = written("bounds", tmp_path)
    frame = pl.read_parquet(path)
    frame.with_columns(upper=pl.lit(None, dtype=pl.Int64)).write_parquet(path)
    assert (read().upper[-1] == 2**31 - 1).all()
