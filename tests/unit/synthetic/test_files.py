from pathlib import Path

import polars as pl
import pytest
from tests.populations import make_population

from tallyveil.errors import StoreError
from tallyveil.synthetic.population import write_states


def test_files_hold_the_tables(tmp_path: Path) -> None:
    population = make_population("pl94-persons", 300, 4)
    folder = tmp_path / "new" / "input"
    paths = write_states([population], folder)
    assert {name: path.name for name, path in paths.items()} == {
        "records": "records.parquet",
        "geography": "geography.parquet",
        "entities": "entities.parquet",
        "facilities": "facilities.parquet",
    }
    assert pl.read_parquet(paths["records"]).equals(population.records)
    assert pl.read_parquet(paths["geography"]).equals(population.geography)
    assert population.facilities is not None
    assert pl.read_parquet(paths["facilities"]).equals(population.facilities)
    entities = pl.read_parquet(paths["entities"])
    assert entities["geocode"].equals(population.geography["geocode"])
    # No temporary file is left.
    assert sorted(folder.iterdir()) == sorted(paths.values())


def test_earlier_facilities_do_not_stay(tmp_path: Path) -> None:
    write_states([make_population("pl94-persons", 50, 4)], tmp_path)
    paths = write_states([make_population("race-age", 50, 4)], tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(paths.values())
    assert set(paths) == {"records", "geography", "entities"}


def test_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(StoreError, match=r"records\.parquet failed"):
        write_states([make_population("race-age", 5, 4)], tmp_path / "taken")


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    population = make_population("race-age", 5, 4)
    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", no_space)
    with pytest.raises(StoreError, match="no space left"):
        write_states([population], tmp_path)
    assert list(tmp_path.iterdir()) == []
