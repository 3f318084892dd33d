"""A strategy whose variances are those of files, whatever the publisher spent."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting.events import Neighbours
from tallyveil.errors import ConfigError, GeographyError, SchemaError
from tallyveil.measurements.layouts.described.settings import computed_settings, rho_of_variances
from tallyveil.measurements.layouts.described.spine import read_spine
from tallyveil.noise.laws import DiscreteGaussian

from .conftest import UNITS, find_files, write_table
from .test_settings import STRATEGY, files_of
from .test_spine import PLAIN, prefixes

BOUNDED = Neighbours.BOUNDED


def computed(files, neighbours=BOUNDED):
    spine = read_spine(files, measured_only=True)
    return spine, computed_settings(files, spine, UNITS.schema, neighbours)


def test_the_cost_is_that_of_the_declared_strategy(tmp_path):
    spine, found = computed(files_of(tmp_path))
    assert found.shares is None
    assert float(found.allocation.strategy.total) == pytest.approx(float(STRATEGY.total), rel=1e-15)
    assert rho_of_variances(spine, found) == pytest.approx(float(STRATEGY.total), rel=1e-12)
    # The variance of a cost, as a 64-bit number, is that of the files.
    for name in STRATEGY.geolevels:
        stated = found.variances[name]["variance"].unique().to_list()
        assert stated == [float(law.variance) for law in found.allocation.laws(name, "detailed").values()]


def test_bypassed_geounits_have_shares_of_their_own(tmp_path):
    spine, found = computed(files_of(tmp_path, bypassed=True))
    # County and tract have no noisy answers anywhere, and are left out of the tree.
    assert spine.spine.geolevels == ("State", "Block_Group", "Block")
    assert found.shares is not None
    assert found.shares.measured(2).tolist() == [True, True, False]
    assert float(found.allocation.strategy.total) == pytest.approx(float(STRATEGY.total), rel=1e-15)
    law = found.allocation.laws("Block_Group", "detailed")
    assert len({float(one.variance) for one in law.values()}) == 2


MISTAKES = [
    ({"query_name": None}, "noisy answers at Tract have no query in 'query_name'. Download"),
    ({"variance": None}, "noisy answers of 'detailed_dpq' at Tract have no number in 'variance'. A geounit"),
    ({"variance": float("nan")}, "have the variance nan. A geounit that was not measured has no row"),
    ({"variance": float("inf")}, "have the variance inf. A geounit that was not measured has no row"),
    ({"variance": -4.0}, "have the variance -4.0, which is negative. If 'variance' holds another number"),
    ({"variance": 0.0}, "have the variance 0, and noise has a greater one. Counts without noise belong"),
    ({"variance": 1e-3}, "have the variance 0.001; variances from 0.004 to 1e+10 can be imported. If 'var"),
    ({"variance": 1e11}, "have the variance 100000000000.0; variances from 0.004 to 1e+10 can be"),
]


@pytest.mark.parametrize(("change", "words"), MISTAKES, ids=lambda item: str(item)[:20])
def test_each_mistake_in_a_variance_has_its_own_words_and_names_the_file(tmp_path, change, words):
    files_of(tmp_path)
    path = tmp_path / "Tract.parquet" / "DPQuery" / "part-0.parquet"
    frame = pl.read_parquet(path)
    name, value = next(iter(change.items()))
    # The first file is sound; the second has the mistake.
    second = path.with_name("part-1.parquet")
    frame.with_columns(pl.lit(value, dtype=frame.schema[name]).alias(name)).write_parquet(second)
    with pytest.raises(ConfigError) as caught:
        computed(find_files(tmp_path))
    assert str(caught.value).startswith(f"{second}: ")
    assert words in str(caught.value)
    assert caught.value.code == "layout-settings"


@pytest.mark.parametrize("parameter", ["1/200", "3/40", "1/3", "9/10", "7/4", "5"])
def test_the_variance_of_noise_gives_back_its_law(tmp_path, parameter):
    """Small parameters differ from the variance of their noise."""
    variance = DiscreteGaussian(Fraction(parameter)).variance_float()
    for name, codes in prefixes(PLAIN).items():
        noisy = {"query_name": "detailed_dpq", "value": [1, 2], "variance": variance}
        exact = {"query_name": "total_con", "value": [3]}
        write_table(tmp_path, name, "DPQuery", [{"geocode": code, **noisy} for code in codes])
        write_table(tmp_path, name, "Constraint", [{"geocode": code, **exact} for code in codes])
    files = find_files(tmp_path)
    answers = replace(files.form.answers, variance="noise")
    _, found = computed(replace(files, form=replace(files.form, answers=answers)))
    (law,) = found.allocation.laws("Tract", "detailed").values()
    assert law.variance_float() == variance
    assert float(law.variance) == pytest.approx(float(Fraction(parameter)), rel=1e-9)


def test_unbounded_neighbours_move_one_answer(tmp_path):
    _, found = computed(files_of(tmp_path), Neighbours.UNBOUNDED)
    assert float(found.allocation.strategy.total) == pytest.approx(float(STRATEGY.total) / 2, rel=1e-15)


def test_what_no_strategy_gives_is_refused(tmp_path):
    files_of(tmp_path)
    rows = [
        {
            "geocode": code,
            "query_name": name,
            "value": [1, 2] if name == "detailed_dpq" else [3],
            "variance": variance,
        }
        for code, ratio in zip(PLAIN, (1, 1, 2), strict=True)
        for name, variance in (("detailed_dpq", 4.0 * ratio), ("total_dpq", 2.0))
    ]
    write_table(tmp_path, "Block", "DPQuery", rows)
    with pytest.raises(ConfigError, match="same multiple of their usual variances") as caught:
        computed(find_files(tmp_path))
    assert caught.value.code == "layout-settings"
    write_table(tmp_path, "Block", "DPQuery", rows[:-1])
    with pytest.raises(SchemaError, match="and none of 'total_dpq'"):
        computed(find_files(tmp_path))
    write_table(tmp_path, "Block", "DPQuery", rows[:1] + rows[4:5])
    with pytest.raises(GeographyError, match="have siblings and no noisy answers"):
        computed(find_files(tmp_path))


def test_names_of_no_query_and_of_one_query_twice(tmp_path):
    files_of(tmp_path)
    for names, said in ((["sex_dpq"], "names no query"), (["h1_dpq", "detailed_dpq"], "are the same query")):
        rows = [{"geocode": "44", "query_name": name, "value": [1, 2], "variance": 2.0} for name in names]
        write_table(tmp_path, "State", "DPQuery", rows)
        with pytest.raises(ConfigError, match=said):
            computed(find_files(tmp_path))


def test_measured_rows_are_those_with_answers(tmp_path):
    spine, _ = computed(files_of(tmp_path))
    assert all(np.all(here) for here in spine.measured)
