"""Atoms, classes and refusals."""

import numpy as np
import pytest

from tallyveil.errors import ConstraintError, GeographyError, SchemaError
from tallyveil.estimation.intervals.algebra import (
    coefficients,
    derive_algebra,
    derive_axis,
    gram,
    information,
)
from tallyveil.estimation.intervals.model import LevelModel, Zeros, model_of_levels
from tallyveil.estimation.intervals.questions import n_distinct_blocks, questions_of
from tallyveil.geography.build import spine_from_columns
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

SPECS = ("total", "hhinstlevels", "hhgq", "votingage*hispanic*cenrace", "detailed")


def test_atoms_are_a_common_refinement():
    attribute = Attribute("a", ("p", "q", "r", "s", "t", "u"))
    recodes = (
        Recode("halves", "a", (("x", ("p", "q", "r")), ("y", ("s", "t", "u")))),
        Recode("overlap", "a", (("x", ("r", "s")),)),
        Recode("alone", "a", (("x", ("p",)), ("y", ("q",)))),
    )
    schema = Schema("one", (attribute,), recodes)
    factors = [schema.query(name).factors[0] for name in ("total", "a", "halves", "overlap", "alone")]
    axis = derive_axis(6, factors, np.zeros(6, np.int64))
    # r and s differ by `overlap`; p and q stay together, for `alone` asks for them level by level
    assert axis.atoms == ((0, 1), (2,), (3,), (4, 5))
    # contrasts of p, q are asked for by `alone`, those of t, u are not
    assert axis.contrasts == ((0,), (3,))
    assert sum(axis.sizes) == 6


def test_redistricting_persons_need_few_numbers():
    """Three by three blocks and scalars: 80 numbers, 56 of them distinct, in place of 2016 x 2016."""
    schema = load_preset("pl94-persons")
    algebra = derive_algebra(schema, [schema.query(spec) for spec in SPECS])
    assert sorted(set(algebra.basis.dims.tolist())) == [1, 3]
    assert algebra.n_block_entries == 8 * 9 + 8
    assert sorted(set(algebra.basis.mults[algebra.basis.dims == 1].tolist())) == [5, 310]
    assert int((algebra.basis.dims * algebra.basis.mults).sum()) == 2016


def test_zeros_refine_atoms():
    schema = load_preset("pl94-persons")
    groups = [schema.query(spec) for spec in SPECS]
    zeros = ~schema.possible(np.arange(schema.size))[None]
    algebra = derive_algebra(schema, groups, zeros)
    # age couples with the types in which there are no minors; race and ethnicity stay symmetric
    assert max(len(axis.atoms) for axis in algebra.axes[2:]) == 1
    assert len(algebra.axes[1].atoms) == 2


def test_zeros_that_break_the_symmetry_are_refused():
    schema = load_preset("pl94-persons")
    groups = [schema.query(spec) for spec in SPECS]
    zeros = np.random.default_rng(0).random((1, schema.size)) < 0.5
    with pytest.raises(ConstraintError, match="63 sets of 'cenrace'") as refused:
        derive_algebra(schema, groups, zeros)
    assert refused.value.code == "zeros-not-kept"


def test_queries_that_break_the_symmetry_are_refused():
    attribute = Attribute("age", tuple(f"y{i}" for i in range(90)))
    recode = Recode("pairs", "age", tuple((f"g{i}", (f"y{2 * i}", f"y{2 * i + 1}")) for i in range(45)))
    other = Recode("shifted", "age", tuple((f"g{i}", (f"y{2 * i + 1}", f"y{2 * i + 2}")) for i in range(44)))
    schema = Schema("ages", (attribute,), (recode, other))
    with pytest.raises(SchemaError, match="90 sets of 'age'") as refused:
        derive_algebra(schema, [schema.query("pairs"), schema.query("shifted")])
    assert refused.value.code == "blocks-too-large"


def test_gram_is_the_quadratic_form():
    schema = load_preset("pl94-persons")
    groups = [schema.query(spec) for spec in SPECS]
    algebra = derive_algebra(schema, groups)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(1, schema.size))
    product = gram(algebra, coefficients(algebra, weights))[0]
    for group in groups:
        assert product @ information(algebra, group) == pytest.approx(
            (group.apply_dense(weights) ** 2).sum(), rel=1e-9
        )


def test_answers_of_one_query_share_their_blocks():
    schema = load_preset("pl94-persons")
    algebra = derive_algebra(schema, [schema.query(spec) for spec in SPECS])
    questions = questions_of(algebra, [schema.query("votingage*hispanic*cenrace"), schema.query("total")])
    assert questions.n == 253
    assert len(questions.grams) == 2
    assert n_distinct_blocks(algebra, [schema.query("votingage*hispanic*cenrace")]) == 1
    with pytest.raises(SchemaError):
        questions_of(algebra, load_preset("pl94-units").query("total"))


def test_answers_have_their_own_blocks_unless_they_are_alike():
    """Against the blocks of every answer, computed one by one; the groups are of unequal sizes."""
    levels = tuple(f"l{number}" for number in range(9))
    groups = (("one", levels[:1]), ("two", levels[1:3]), ("also", levels[3:5]), ("rest", levels[5:]))
    schema = Schema(
        "uneven", (Attribute("a", levels), Attribute("b", ("x", "y"))), (Recode("r", "a", groups),)
    )
    asked = [schema.query("r"), schema.query("r*b"), schema.query("a"), schema.query("b")]
    algebra = derive_algebra(schema, [schema.query("r*b")])
    questions = questions_of(algebra, asked)
    own = coefficients(algebra, np.concatenate([group.apply_dense(np.eye(schema.size)).T for group in asked]))
    every = gram(algebra, own)
    np.testing.assert_allclose(questions.grams[questions.gram_of], every, atol=1e-12)
    distinct = len({tuple(row) for row in np.round(every, 9) + 0.0})
    assert len(questions.grams) == n_distinct_blocks(algebra, asked) == distinct
    assert 4 < distinct < questions.n


def test_levels_that_do_not_fit():
    schema = load_preset("race-age")
    spine = spine_from_columns({"A": ["a"], "B": ["b"]}, ["A", "B"])
    detailed = (schema.query("detailed"),)
    root = LevelModel("A", detailed, np.ones((1, 1)), ())
    with pytest.raises(GeographyError, match="root first"):
        model_of_levels(schema, spine, [root])
    with pytest.raises(GeographyError, match="precisions of geolevel B"):
        model_of_levels(schema, spine, [root, LevelModel("B", detailed, np.ones((2, 1)), ())])
    leaf = LevelModel("B", detailed, np.ones((1, 1)), ())
    zeros = Zeros(schema.query("total"), "B", np.zeros((3, 1), dtype=bool))
    with pytest.raises(GeographyError, match="zeros of query"):
        model_of_levels(schema, spine, [root, leaf], zeros=[zeros])
