"""`tallyveil synth` writes a population with a release file that fits it."""

import polars as pl
import pytest

from tallyveil.cli.synth import write_country
from tallyveil.config.load import load_plan
from tallyveil.execution.topdown.inputs import read_histograms, read_spine


@pytest.mark.parametrize(
    ("schema", "states", "root"),
    [
        ("pl94-persons", 1, "State"),
        ("pl94-persons", 3, "US"),
        ("race-age", 3, "State"),
    ],
)
def test_several_states_have_the_us_above_them_where_a_preset_does(tmp_path, schema, states, root):
    *_, release = write_country(tmp_path, blocks=3_000, people=100_000, states=states, schema=schema)
    plan = load_plan(release)
    assert plan.geography.geolevels[0] == root
    spine = read_spine(plan.geography)
    histograms = read_histograms(plan, spine)
    assert histograms[0].counts.sum() == 100_000
    assert spine.n_geounits(spine.level_index("State")) == states
    assert pl.read_parquet(tmp_path / "geography.parquet")["state"].n_unique() == states
