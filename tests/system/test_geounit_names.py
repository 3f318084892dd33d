"""Names of geounits and entities are published with a release, and change no count."""

import polars as pl
import pytest

from tallyveil.errors import ConfigError, GeographyError
from tallyveil.files.geography import read_names
from tallyveil.geography.areas import names_in
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.run import measure_release, run_release

NAMES = {
    "geolevel": ["Region", "Town", "Region", "Block"],
    "geocode": ["P", "P01", "X", "P0000"],
    "name": ["Ö", 'a, "b"', "?", "="],
}


@pytest.fixture
def named(edit, small_release):
    """A release file with names, and a function that makes its plan with another table."""
    edit("[geography]\n", '[geography]\nnames = "names.csv"\n')

    def plan(table):
        pl.DataFrame(table).write_csv(small_release.parent / "names.csv")
        return load_plan(small_release)

    return plan


def test_names_are_published(named, tmp_path):
    plan = named(NAMES)
    whole = run_release(plan, tmp_path / "whole", test_key=bytes(32), workers=1)
    names = pl.read_parquet(tmp_path / "whole" / "names.parquet")
    assert names.rows() == [("Region", "P", "Ö"), ("Town", "P01", 'a, "b"'), ("Block", "P0000", "=")]
    assert "names.parquet" in whole.manifest.digests
    measure_release(plan, tmp_path / "measured", test_key=bytes(32))
    estimate_release(open_measurements(tmp_path / "measured"), tmp_path / "later", workers=1)
    assert pl.read_parquet(tmp_path / "later" / "names.parquet").equals(names)
    for path in (tmp_path / "whole" / "tables").rglob("*.parquet"):
        later = tmp_path / "later" / path.relative_to(tmp_path / "whole")
        assert pl.read_parquet(path).equals(pl.read_parquet(later))


def test_names_in_the_languages_of_the_labels_are_published(named, small_release, tmp_path):
    with small_release.open("a", encoding="utf-8") as file:
        file.write('[labels.de]\ntitle = "Klein"\n[labels.fr]\ntitle = "Petit"\n')
    plan = named({**NAMES, "name:fr": ["", "à", "b", "c"], "name:it": ["i", "t", "a", "l"]})
    run_release(plan, tmp_path / "out", test_key=bytes(32), workers=1)
    names = read_names(tmp_path / "out")
    assert names.columns == ["geolevel", "geocode", "name", "name:fr"]
    assert names_in(names, "fr")["name"].to_list() == ["Ö", "à", "c"]
    assert names_in(names, "de").equals(names.drop("name:fr"))


def test_names_change_no_noise(named, small_release):
    with_names = named(NAMES)
    small_release.write_text(small_release.read_text().replace('names = "names.csv"\n', ""))
    without = load_plan(small_release)
    assert with_names.measuring_digest() == without.measuring_digest()
    assert with_names.digest() != without.digest()


@pytest.mark.parametrize(
    "change",
    [
        {"geolevel": ["Region", "City", "Region", "Block"]},
        {"geocode": ["P", "P01", "P", "P0000"]},
        {"name": ["a", None, "b", "c"]},
        {"name": ["a", "", "b", "c"]},
    ],
)
def test_names_that_do_not_fit_are_refused(named, change):
    with pytest.raises(GeographyError) as refused:
        read_hierarchies(named({**NAMES, **change}))
    assert refused.value.code == "geounit-names"


def test_a_table_without_names_is_refused(named):
    with pytest.raises(ConfigError):
        read_hierarchies(named({"geolevel": ["Region"], "geocode": ["P"]}))
