"""The file of population groups: the example as a plan, and the mistakes that are refused."""

from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from tallyveil.accounting.costs import rho_of
from tallyveil.accounting.events import ParallelEvent
from tallyveil.errors import TallyveilError
from tallyveil.products.safetab.public.from_toml import load_group_plan

EXAMPLE = Path(__file__).parents[5] / "examples" / "hospital_stays"


@pytest.fixture
def changed(tmp_path):
    """The example with one text replaced by another."""

    def load(old: str, new: str):
        text = (EXAMPLE / "stays.toml").read_text()
        assert text.count(old) >= 1
        (tmp_path / "stays.toml").write_text(text.replace(old, new))
        (tmp_path / "diagnoses.csv").write_text((EXAMPLE / "diagnoses.csv").read_text())
        return load_group_plan(tmp_path / "stays.toml")

    return load


def test_the_example_is_a_plan_that_costs_what_it_declares():
    plan = load_group_plan(EXAMPLE / "stays.toml")
    assert rho_of(plan.event()) == plan.spent == plan.declared == Fraction(1)
    assert [(one.name, one.width, one.n_adaptive) for one in plan.levels] == [
        ("all stays", 1, 1),
        ("chapters", 18, 18),
        ("all diagnoses of one chapter", 18, 18),
        ("codes", 45, 41),
        ("chapters by region", 90, 64),
    ]
    assert plan.levels[1].ladder.names == ("total", "sex", "sex * broad_age", "sex * age", "total only")
    assert [table.n_cells for table in plan.levels[1].ladder.tables] == [2, 6, 16]
    assert plan.digest() == load_group_plan(EXAMPLE / "stays.toml").digest()


def test_a_level_of_total_only_groups_has_one_law(changed):
    plan = changed(
        'by = ["chapter"]\nmost_groups = 3', 'by = ["chapter"]\ntotal_only = true\nmost_groups = 3'
    )
    own = plan.event().events[1]
    assert isinstance(own, ParallelEvent)
    assert (len(own.events), own.degree) == (1, 3)
    assert rho_of(plan.event()) == plan.spent


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('by = ["code"]', 'by = ["county"]', "groups-file"),
        ('by = ["code"]', 'by = ["code", "code"]', "bad-key-or-value"),
        ("most_groups = 1", "most_groups = 4", "groups-file"),
        ("thresholds = [0, 0, 0]", "thresholds = [0, 0]", "groups-file"),
        ("thresholds = [0, 0, 0]", "thresholds = [2, 1, 0]", "bad-key-or-value"),
        ('chapter = ["P", "Q"]', 'chapter = ["P", "X"]', "groups-file"),
        ('rho = "1"', 'rho = "99/100"', "budget"),
        ('rho = "1"', 'epsilon = "1"', "bad-key-or-value"),
        ('budget = "1/20"', 'budget = "0"', "bad-key-or-value"),
        ('budget = "1/20"', "budget = 0.05", "bad-key-or-value"),
        ('name = "only_chapter"', 'name = "chapter"', "groups-file"),
        ('name = "only_chapter"', 'name = "Chapter"', "bad-name"),
        ('name = "region"', 'name = "count"', "bad-name"),
        ('name = "region"', 'name = "true"', "bad-name"),
        ('details = ["sex",', 'details = ["sex", "sex",', "schema"),
        ('details = ["sex",', 'details = ["total",', "schema"),
        ('"sex * broad_age", "sex * age"', '"sex * age", "sex * broad_age"', "schema"),
        ('"sex * broad_age", "sex * age"', '"sex * age", "age * sex"', "query-twice"),
        ('columns = ["region"]\n', 'columns = ["region"]\nmissing = ["West"]\n', "groups-missing-value"),
        ('"West", "Islands"]\n', '"West", "West"]\n', "groups-file"),
        ('path = "diagnoses.csv"', 'path = "nothing.csv"', "input-missing"),
        ('"sex * broad_age", "sex * age"', '"sex * height", "sex * age"', "schema"),
        ('details = ["sex",', 'details = ["sex",' + 11 * ' "sex",', "bad-key-or-value"),
        ('"0-14" = ["0-4", "5-14"], ', "", "schema"),
        ('unit = "stay"', 'columns = { height = "h" }', "unknown-attribute"),
        (
            'name = "region"\n',
            'name = "region"\nmaps = [{ columns = ["a"], groups = ["X"] }]\n',
            "bad-key-or-value",
        ),
        ('columns = ["region"]\n', "", "bad-key-or-value"),
        ("by = []", "noise = { geolevel = 1, query = 0 }\nby = []", "bad-key-or-value"),
        ("by = []", 'noise = { geolevel = 9, query = 0, geounit = "region" }\nby = []', "bad-key-or-value"),
        (
            'by = ["region", "chapter"]',
            'noise = { geolevel = 9, query = 0, geounit = "region" }\nby = ["region", "chapter"]',
            "bad-key-or-value",
        ),
    ],
)
def test_mistakes_are_refused(changed, old, new, code):
    with pytest.raises(TallyveilError) as caught:
        changed(old, new)
    assert caught.value.code == code, str(caught.value)


def test_a_byte_order_mark_is_passed_over(changed):
    plan = changed("# Hospital stays", "\ufeff# Hospital stays")
    assert plan.digest() == load_group_plan(EXAMPLE / "stays.toml").digest()


@pytest.mark.parametrize("value", [["A00"], b"A\xff", timedelta(1)], ids=["list", "bytes", "duration"])
def test_lists_bytes_and_durations_are_no_values(changed, tmp_path, value):
    pl.DataFrame({"code": [value], "chapter": ["A"]}).write_parquet(tmp_path / "codes.parquet")
    with pytest.raises(TallyveilError, match="hold lists, structures, bytes or durations"):
        changed('path = "diagnoses.csv"', 'path = "codes.parquet"')


def test_details_with_overlapping_groups_are_refused(changed):
    with pytest.raises(TallyveilError, match="overlap, so that its cells would not add up"):
        changed(
            'name = "broad_age"\nattribute = "age"\ngroups = { "0-14"',
            'name = "broad_age"\nattribute = "age"\noverlapping = true\ngroups = { any = ["0-4", "85+"], "0-14"',
        )
