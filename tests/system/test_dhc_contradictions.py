"""Records of the DHC in which one column contradicts another are refused before anything is spent."""

import polars as pl
import pytest

import tallyveil
from tallyveil.api.beginning import write_country
from tallyveil.errors import SchemaError


@pytest.mark.nightly
@pytest.mark.parametrize("column", ["votingage", "hhgq"])
def test_columns_that_two_releases_count_by(tmp_path, column):
    """The redistricting data count by this column, and the DHC by the one that it follows from."""
    write_country(tmp_path / "dhc", blocks=5, schema="dhc", people=200, seed=5)
    path = tmp_path / "dhc" / "persons.parquet"
    people = pl.read_parquet(path)
    for bounds in ("redistricting.toml", "dhc-persons.toml"):  # which a wrong hhgq would break before
        text = (tmp_path / "dhc" / bounds).read_text()
        begin = text.index("[[bounds]]")
        (tmp_path / "dhc" / bounds).write_text(text[:begin] + text[text.index("[outputs]") :])
    value = {"votingage": "18_plus", "hhgq": "military"}[column]
    child = (pl.col("hhgq").cast(pl.String) == "household") & (
        pl.col("votingage").cast(pl.String) == "under_18"
    )
    if column == "hhgq":
        child = (pl.col("hhgq").cast(pl.String) == "household") & ~child
    row = people.with_row_index().filter(child)["index"][0]
    wrong = (
        pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(pl.col(column).cast(pl.String))
    )
    people.with_columns(wrong.alias(column)).write_parquet(path)
    with pytest.raises(SchemaError, match=f"column '{column}'") as caught:
        tallyveil.run_programme(tmp_path / "dhc" / "programme.toml", tmp_path / "R", insecure_test_key="k")
    assert caught.value.code == "records-contradict"
    assert value not in str(caught.value)
    assert not (tmp_path / "R").exists()
