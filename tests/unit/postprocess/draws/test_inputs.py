"""Counts of an earlier census are read for the geounits of the spine that was measured."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import GeographyError, SchemaError
from tallyveil.estimation.intervals.model import LevelModel
from tallyveil.estimation.posterior.problem import posterior_problem
from tallyveil.geography.areas import Hierarchies, plain_hierarchies
from tallyveil.geography.build import spine_from_columns
from tallyveil.postprocess.draws.inputs import read_earlier_census
from tallyveil.schema.schema import schema_from_mapping

SCHEMA = schema_from_mapping(
    {
        "name": "s",
        "attributes": [
            {"name": "age", "levels": ["young", "old"]},
            {"name": "race", "levels": ["a", "b", "c"]},
        ],
        "structural_zeros": [{"name": "no young c", "cells": {"age": ["young"], "race": ["c"]}}],
    }
)
BLOCKS = ["11", "12", "13", "21", "22"]
PLAIN = spine_from_columns({"S": ["s"] * 5, "G": ["1", "1", "1", "2", "2"], "B": BLOCKS}, ["S", "G", "B"])
CUT = spine_from_columns({"S": ["s"] * 5, "G": ["x", "x", "y", "y", "y"], "B": BLOCKS}, ["S", "G", "B"])
"""The first group was cut, and a part of it put together with the second."""
UNLIKE = spine_from_columns({"S": ["s"] * 5, "P": ["x", "x", "y", "y", "y"], "B": BLOCKS}, ["S", "P", "B"])
"""Parts with another name stand in the place of groups."""


class Nothing:
    """Noisy answers that are all 0."""

    def rows(self, level, queries, start, stop):
        return np.zeros((stop - start, 1), np.int64)


@pytest.fixture
def census(tmp_path):
    """Reads rows of a code, an age, a race and a number."""

    def read(rows, hierarchies, kind=pl.Int64):
        schema = {"GEOID20": pl.String, "age": pl.String, "race": pl.String, "count": kind}
        pl.DataFrame(rows, schema=schema, orient="row").write_parquet(tmp_path / "census.parquet")
        return read_earlier_census(tmp_path / "census.parquet", hierarchies, SCHEMA)

    return read


def test_counts_of_blocks_are_added_by_group(census):
    read = census(
        [("13", "old", "b", 4), ("22", "young", "a", 1), ("13", "old", "b", 3)], plain_hierarchies(PLAIN)
    )
    assert (read.level, read.attributes) == (2, ("age", "race"))
    dense = read.counts.toarray()
    assert dense[2].tolist() == [0, 0, 0, 0, 7, 0]
    assert dense[4].tolist() == [1, 0, 0, 0, 0, 0]
    assert dense.sum() == 8


def test_a_geounit_has_the_counts_of_all_in_which_it_has_blocks(census):
    rows = [("1", None, "b", 4), ("2", None, "a", 1)]
    plain, cut = census(rows, plain_hierarchies(PLAIN)), census(rows, Hierarchies(CUT, PLAIN))
    assert (plain.level, plain.attributes) == (1, ("race",))
    assert plain.counts.toarray().tolist() == [[0, 4, 0], [1, 0, 0]]
    assert cut.counts.toarray().tolist() == [[0, 4, 0], [1, 4, 0]]


def test_geocodes_of_two_geolevels_are_refused(census):
    with pytest.raises(GeographyError, match="1 rows whose geocode is of no B, such as '1'") as raised:
        census([("11", "old", "b", 4), ("12", "old", "b", 4), ("1", "old", "b", 3)], plain_hierarchies(PLAIN))
    assert raised.value.code == "draws-earlier"


def test_counts_of_a_geolevel_that_was_not_measured_are_refused(census):
    with pytest.raises(GeographyError, match="2 rows whose geocode is of no B, such as '1'"):
        census([("1", None, "b", 4), ("2", None, "a", 1)], Hierarchies(UNLIKE, PLAIN))


@pytest.mark.parametrize("kind", [pl.Float64, pl.Decimal(10, 2), pl.String])
def test_whole_numbers_of_any_type_are_counts(census, kind):
    rows = pl.DataFrame({"geocode": ["13"], "age": ["old"], "race": ["b"], "count": [4]})
    read = census(rows.with_columns(pl.col("count").cast(kind)).rows(), plain_hierarchies(PLAIN), kind)
    assert read.counts.toarray()[2].tolist() == [0, 0, 0, 0, 4, 0]


@pytest.mark.parametrize("kind", [pl.Date, pl.Duration, pl.Boolean])
def test_dates_and_truth_values_are_no_counts(census, kind):
    with pytest.raises(SchemaError, match="wanted whole numbers"):
        census([("13", "old", "b", None)], plain_hierarchies(PLAIN), kind)


@pytest.mark.parametrize("limited", [False, True])
def test_groups_of_the_prior_have_the_sums_of_their_possible_parts(census, limited):
    """Races divide first, or, with a limit on ages, ages do; an attribute that the file lacks is not divided by it."""
    read = census(
        [("1", "young", None, 6), ("1", "old", None, 9), ("2", "old", None, 2)], plain_hierarchies(PLAIN)
    )
    first = ["age"] if limited else []
    levels = [LevelModel(name, (SCHEMA.query("total"),), np.ones((1, 1)), ()) for name in PLAIN.geolevels]
    problem = posterior_problem(SCHEMA, PLAIN, levels, Nothing(), [], first, earlier=read, gaussian=True)
    shapes, parent = problem.earlier, problem.kernel.steps.parent
    assert shapes.row == 1
    (step,) = shapes.named_steps
    assert step == (0 if limited else 1)
    for group in np.flatnonzero(problem.step == step):
        assert (shapes.counts[:, parent == group].sum(axis=1) == shapes.counts[:, group]).all()
    assert shapes.counts[0, problem.cells].tolist() == [6, 6, 0, 9, 9, 9]
    known = shapes.at(1, np.array([3.0]), np.array([0.2]))
    assert (
        (known.discount == 3.0).tolist() == (known.renewal == 0.2).tolist() == (problem.step == step).tolist()
    )
    assert (known.renewal[problem.step != step] == 1.0).all()
    assert not len(shapes.at(0, np.array([3.0]), np.array([0.2])).counts)
