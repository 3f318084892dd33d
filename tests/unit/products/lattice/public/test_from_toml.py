"""The file of `tallyveil subspace`: every mistake is one error of the project, and what is read is exact."""

from fractions import Fraction

import polars as pl
import pytest

from tallyveil.accounting.events import Neighbours
from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.products.lattice.public.from_toml import load_subspace_plan

FILE = """
[release]
name = "a table"
[table]
path = "counts.csv"
[[attributes]]
name = "place"
levels = ["north", "south"]
[[attributes]]
name = "kind"
levels = ["a", "b"]
[[constraints]]
name = "places"
margin = ["place"]
[privacy]
epsilon = "2"
[mechanism]
law = "laplace"
epsilon = "1/3"
distance = "2"
"""
LISTED = 'path = "levels.parquet"\ncolumn = "level"'


@pytest.fixture
def load(tmp_path):
    def changed(*changes):
        text = FILE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / "table.toml").write_text(text)
        return load_subspace_plan(tmp_path / "table.toml")

    return changed


def test_numbers_are_exact_and_paths_relative_to_the_file(load, tmp_path):
    plan = load()
    assert plan.cost == Fraction(2, 3)
    assert plan.declared == 2
    assert plan.neighbours is Neighbours.BOUNDED
    assert plan.table.path == tmp_path / "counts.csv"
    assert plan.table.columns == (("place", "place"), ("kind", "kind"))
    assert plan.schema.size == 4
    assert load(('path = "counts.csv"', 'path = "counts.csv"\ncolumns = { kind = "sort" }')).table.columns[
        1
    ] == (
        "kind",
        "sort",
    )


def test_a_plan_elsewhere_is_the_same_plan(load):
    """The path of the table is no part of its digest; everything else is."""
    one = load()
    assert load(("counts.csv", "elsewhere/counts.parquet")).digest() == one.digest()
    for change in (
        ('"1/3"', '"1/4"'),
        ('"2"', '"3"'),
        ("a table", "b table"),
        ('"south"', '"east"'),
        ('margin = ["place"]', 'margin = ["kind"]'),
        ('distance = "2"', 'distance = "3"'),
        ("[privacy]", '[privacy]\nneighbours = "unbounded"'),
    ):
        assert load(change).digest() != one.digest()


MISTAKES = {
    "unknown column": ('path = "counts.csv"', 'path = "counts.csv"\ncolumns = { height = "h" }'),
    "unknown key": ("[privacy]", "[privacy]\nsalt = 1"),
    "a float": ('"1/3"', "0.333"),
    "no levels": ('levels = ["a", "b"]', ""),
    "two forms of levels": ('levels = ["a", "b"]', f'levels = ["a"]\n{LISTED}'),
    "path without column": ('levels = ["a", "b"]', 'path = "levels.parquet"'),
    "no file of levels": ('levels = ["a", "b"]', LISTED),
    "levels twice": ('["a", "b"]', '["a", "a"]'),
    "a name that outputs use": ('"kind"', '"Noise"'),
    "attributes twice": ('"kind"', '"place"'),
    "two forms of a sum": ('margin = ["place"]', 'margin = ["place"]\ncells = { place = ["north"] }'),
    "a total of many sums": ('margin = ["place"]', 'margin = ["place"]\ntotal = 5'),
    "an unknown attribute in a margin": ('margin = ["place"]', 'margin = ["height"]'),
    "an unknown level in cells": ('margin = ["place"]', 'cells = { place = ["east"] }'),
    "a coefficient that is not whole": (
        'margin = ["place"]',
        'terms = [{ cells = { place = ["north"] }, times = 0.5 }]',
    ),
    "a coefficient without end": (
        'margin = ["place"]',
        'terms = [{ cells = { place = ["north"] }, times = inf }]',
    ),
    "a coefficient that is no number": (
        'margin = ["place"]',
        'terms = [{ cells = { place = ["north"] }, times = nan }]',
    ),
    "a coefficient that no float holds": (
        'margin = ["place"]',
        f'terms = [{{ cells = {{ place = ["north"] }}, times = {2**53 + 1} }}]',
    ),
    "a coefficient of hundreds of digits": (
        'margin = ["place"]',
        f'terms = [{{ cells = {{ place = ["north"] }}, times = {10**400} }}]',
    ),
    "delta one": ("[privacy]", '[privacy]\ndelta = "1"'),
    "rho for Laplace noise": ('[privacy]\nepsilon = "2"', '[privacy]\nrho = "2"'),
    "both units": ("[privacy]", '[privacy]\nrho = "2"'),
    "a variance for Laplace noise": ('epsilon = "1/3"', 'epsilon = "1/3"\nvariance = "4"'),
    "another law": ('"laplace"', '"uniform"'),
    "no distance": ('distance = "2"', 'distance = "1/2"'),
    "more than is declared": ('epsilon = "2"', 'epsilon = "1/2"'),
    "noise without epsilon": ('epsilon = "1/3"', 'epsilon = "0"'),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(load, mistake):
    with pytest.raises(TallyveilError):
        load(MISTAKES[mistake])


def test_levels_are_read_from_a_public_table(load, tmp_path):
    pl.DataFrame({"level": [3, 10]}).write_parquet(tmp_path / "levels.parquet")
    assert load(('levels = ["a", "b"]', LISTED)).schema.attributes[1].levels == ("3", "10")


def test_a_level_that_is_missing_in_the_table_is_no_level(load, tmp_path):
    pl.DataFrame({"level": ["a", None]}).write_parquet(tmp_path / "levels.parquet")
    with pytest.raises(ConfigError, match="without a level") as caught:
        load(('levels = ["a", "b"]', LISTED))
    assert caught.value.code == "bad-name"


def test_gaussian_noise_costs_half_the_distance_over_its_variance(load):
    gaussian = ('law = "laplace"\nepsilon = "1/3"', 'law = "gaussian"\nvariance = "3"')
    plan = load(gaussian, ('[privacy]\nepsilon = "2"', '[privacy]\nrho = "1/3"'))
    assert (plan.budget_unit, plan.cost) == ("rho", Fraction(1, 3))
    with pytest.raises(ConfigError) as caught:
        load(
            gaussian,
            ('[privacy]\nepsilon = "2"', '[privacy]\nrho = "2"'),
            ('distance = "2"', 'distance = "5/2"'),
        )
    assert caught.value.code == "subspace-distance"


@pytest.mark.parametrize("name", ["counts.csv", "levels.parquet"])
def test_levels_do_not_come_from_the_confidential_table(load, tmp_path, name):
    (tmp_path / "counts.csv").write_text("place,level\nnorth,canary\n")
    if name != "counts.csv":
        (tmp_path / name).hardlink_to(tmp_path / "counts.csv")
    with pytest.raises(ConfigError, match="must be public") as caught:
        load(('levels = ["a", "b"]', LISTED.replace("levels.parquet", name)))
    assert caught.value.code == "records-not-public"
    assert "canary" not in str(caught.value)


def test_two_constraints_of_one_name_are_refused(load):
    with pytest.raises(ConfigError, match="'places' twice") as caught:
        load(("[privacy]", '[[constraints]]\nname = "places"\nmargin = ["kind"]\n[privacy]'))
    assert caught.value.code == "stated-twice"
