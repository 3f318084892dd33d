"""A measurement file of a stranger may hold anything; what is none is refused as damaged."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.measurements.names import measurement_folder
from tallyveil.measurements.store import StoredMeasurements, require_part

SPINE = spine_from_prefixes(["A0", "A1"], ("Region", "Block"), (1, 2))
WHOLE = pl.DataFrame(
    {"geocode": ["A0", "A1"], "values": [[1, -2], [3, 4]], "variance": [2.5, 2.5]},
    schema_overrides={"values": pl.List(pl.Int32)},
)
SUPPORT = WHOLE.with_columns(pl.Series("answers", [[0, 1], [0, 5]], dtype=pl.List(pl.Int32)))


@pytest.mark.parametrize("frame", [WHOLE, SUPPORT, WHOLE.clear(), WHOLE.cast({"values": pl.List(pl.Int64)})])
def test_what_a_run_writes_is_taken(tmp_path, frame):
    require_part(tmp_path, frame)


@pytest.mark.parametrize(
    "frame",
    [
        WHOLE.drop("geocode"),
        WHOLE.drop("values"),
        WHOLE.drop("variance"),
        WHOLE.cast({"variance": pl.String}),
        WHOLE.cast({"variance": pl.Int128}),
        WHOLE.cast({"values": pl.List(pl.Float64)}),
        WHOLE.with_columns(values=pl.lit(None, pl.Time)),
        WHOLE.with_columns(geocode=pl.lit(1)),
        WHOLE.with_columns(geocode=pl.lit(None, pl.String)),
        WHOLE.with_columns(pl.Series("values", [[1, None], [3, 4]], dtype=pl.List(pl.Int32))),
        WHOLE.with_columns(pl.Series("values", [None, [3, 4]], dtype=pl.List(pl.Int32))),
        WHOLE.with_columns(variance=pl.lit(float("nan"))),
        WHOLE.with_columns(variance=pl.lit(0.0)),
        SUPPORT.with_columns(pl.Series("answers", [[0], [0, 5]], dtype=pl.List(pl.Int32))),
        SUPPORT.cast({"answers": pl.List(pl.String)}),
    ],
)
def test_what_is_no_measurement_is_damaged(tmp_path, frame):
    path = measurement_folder(tmp_path, "Block", "total") / "part-00000.parquet"
    path.parent.mkdir(parents=True)
    frame.write_parquet(path)
    with pytest.raises(StoreError) as refused:
        StoredMeasurements(tmp_path, SPINE).measure("Block", "total", 0, 2, np.array([0]))
    assert refused.value.code == "release-damaged"
    assert path.name in str(refused.value)


def test_a_geounit_that_is_there_twice_is_refused(tmp_path):
    path = measurement_folder(tmp_path, "Block", "total") / "part-00000.parquet"
    path.parent.mkdir(parents=True)
    pl.concat([SUPPORT, SUPPORT.head(1)]).write_parquet(path)
    with pytest.raises(StoreError) as refused:
        StoredMeasurements(tmp_path, SPINE).measure("Block", "total", 0, 2, np.array([0]))
    assert refused.value.code == "measurements-mismatch"
