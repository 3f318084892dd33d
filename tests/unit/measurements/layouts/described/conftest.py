"""Small folders of the layout, made by hand."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tallyveil.measurements.layouts.described import source
from tallyveil.measurements.layouts.described.source import SourceFiles
from tallyveil.plans.from_toml.descriptions import Description, descriptions_named

PERSONS, UNITS = (descriptions_named(f"census-2020-{name}-us")[0] for name in ("persons", "units"))


def find_files(root: Path, description: Description = UNITS) -> SourceFiles:
    return source.find_files(root, description.form, description.schema)


Rows = Sequence[Mapping[str, Any]]
KINDS: dict[str, Any] = {
    "value": pl.List(pl.Int64),
    "variance": pl.Float64,
    "geocode": pl.String,
    "query_name": pl.String,
}


def write_table(root: Path, geolevel: str, table: str, rows: Rows) -> None:
    """Write one file of a table; rows without a variance or a sign get one."""
    own = {"variance": 1.0} if table == "DPQuery" else {"sign": "="}
    folder = root / f"{geolevel}.parquet" / table
    folder.mkdir(parents=True, exist_ok=True)
    names = [*dict.fromkeys(name for row in [{**own}, *rows] for name in row)]
    names = [*dict.fromkeys(["geocode", "query_name", "value", *names])]
    frame = pl.DataFrame(
        [{**own, **row} for row in rows],
        schema={name: KINDS.get(name, pl.String) for name in names},
    )
    frame.write_parquet(folder / "part-0.parquet")


@pytest.fixture
def make_files(tmp_path) -> Callable[..., SourceFiles]:
    """Makes a folder: for each geolevel, the geocodes with noisy answers, and all geocodes."""

    def make(answered: Mapping[str, Sequence[str]], listed: Mapping[str, Sequence[str]]) -> SourceFiles:
        for geolevel, codes in listed.items():
            rows = [{"geocode": code, "query_name": "total_con", "value": [7]} for code in codes]
            write_table(tmp_path, geolevel, "Constraint", rows)
            noisy = [
                {"geocode": code, "query_name": "detailed_dpq", "value": [3, 4]}
                for code in answered.get(geolevel, codes)
            ]
            write_table(tmp_path, geolevel, "DPQuery", noisy)
        return find_files(tmp_path)

    return make
