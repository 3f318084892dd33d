import json
from pathlib import Path

import polars as pl

from tallyveil.files.evaluation import (
    ARTEFACT_COLUMNS,
    COLUMNS,
    Evaluation,
    write_evaluation,
)
from tallyveil.schema.schema import PERSON

FRAME = pl.DataFrame(
    [
        ("block", "total", "0", 3, 3, 0.5, 0.5, 0, 1, -0.25, None),
        ("block", "total", "1-9", 1, 1, 2.0, 8.0, 2, 2, 2.0, 0.4),
    ],
    schema=COLUMNS,
    orient="row",
)
ARTEFACTS = pl.DataFrame(
    [("block", "filled", None, None, 2, 2, 7, 0.5)], schema=ARTEFACT_COLUMNS, orient="row"
)
PARAMETERS = ({"geolevel": "block", "spent": "1/2", "epsilon_at_1e-5": 4.0},)
FOUND = Evaluation(FRAME, ARTEFACTS, PERSON, "block", PARAMETERS)


def test_the_tables_are_written(tmp_path: Path) -> None:
    write_evaluation(tmp_path, FOUND, {"run": "0123"})
    assert pl.read_parquet(tmp_path / "evaluation" / "errors.parquet").equals(FRAME)
    assert pl.read_parquet(tmp_path / "evaluation" / "artefacts.parquet").equals(ARTEFACTS)


def test_every_file_is_marked_as_not_private_whatever_the_metadata_say(tmp_path: Path) -> None:
    path = write_evaluation(tmp_path, FOUND, {"protected": "true", "warning": ""})
    content = json.loads(path.read_text())
    assert content["protected"] is False
    assert content["warning"].startswith("NOT PRIVATE")
    assert sorted(item.name for item in path.parent.iterdir()) == [
        "artefacts.parquet",
        "errors.json",
        "errors.parquet",
    ]
    assert content["artefacts"][0]["records"] == 7
    assert content["privacy_of_the_measurements"] == list(PARAMETERS)
    for name in ("errors", "artefacts"):
        metadata = pl.read_parquet_metadata(path.with_name(f"{name}.parquet"))
        assert metadata["tallyveil.protected"] == "false"
        assert metadata["tallyveil.warning"].startswith("NOT PRIVATE")
