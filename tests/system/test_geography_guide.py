"""The commands of docs/geography.md run as they stand, on a small State in the form of the Bureau's files."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from tallyveil.plans import guarantee
from tallyveil.plans.guarantee import guarantee_of

GUIDE = (Path(__file__).parents[2] / "docs" / "geography.md").read_text()
BLOCKS = [
    f"44{county}{tract:06d}{group}{block:03d}"
    for county in ("001", "003")
    for tract in (30100, 30200, 30300)
    for group in (1, 2)
    for block in range(10)
]


def written(folder: Path) -> None:
    """Block assignment files of a State whose areas cross its tracts, and a table of facilities."""
    number = dict(zip(BLOCKS, range(len(BLOCKS)), strict=True))
    kinds = {
        "MCD": ("COUNTYFP|COUSUBFP", lambda block: f"{block[2:5]}|{10_000 + number[block] // 25:05d}"),
        "INCPLACE_CDP": (
            "PLACEFP",
            lambda block: f"{20_000 + number[block] % 3}" if number[block] % 2 else "",
        ),
        "AIANNH": ("AIANNHCE|COMPTYP", lambda block: "2415|R" if 33 <= number[block] < 52 else "|"),
    }
    (folder / "baf_ri_2020").mkdir()
    for kind, (header, values) in kinds.items():
        lines = [f"BLOCKID|{header}", *(f"{block}|{values(block)}" for block in BLOCKS)]
        (folder / "baf_ri_2020" / f"BlockAssign_ST44_RI_{kind}.txt").write_text("\n".join(lines) + "\n")
    facilities = ["BLOCKID|GQTYPE|FACILITIES", *(f"{block}|501|1" for block in BLOCKS[::17])]
    (folder / "facilities.txt").write_text("\n".join(facilities) + "\n")


@pytest.mark.nightly
def test_guide(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    # The exact epsilon of a spine with bypassed geounits takes ten seconds, and is tested where it is computed.
    monkeypatch.setattr(guarantee, "guarantee_of", lambda plan, _: guarantee_of(plan))
    written(tmp_path)
    (toml,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    Path("release.toml").write_text(toml)
    commands = re.findall(r"^tallyveil (.*)$", GUIDE, re.MULTILINE)
    assert [line.split()[:2] for line in commands] == [
        ["geography", "import"], ["spine", "build"], ["spine", "build"], ["spine", "compare"],
        ["plan", "release.toml"],
    ]  # fmt: skip
    for line in commands:
        command(*line.split())
    listed = re.findall(r"^\| `(\w+\.parquet)`", GUIDE, re.MULTILINE)
    assert sorted(path.name for path in Path("geography").glob("*.parquet")) == sorted(listed)
    assert pl.read_parquet("geography/geography.parquet")["geocode"].to_list() == BLOCKS
    report = json.loads(Path("geography/import.json").read_text())
    assert report["states"][0]["is_divided_by_tribal_branch"]


def test_json_and_quiet(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    given = ("geography", "import", "--baf", "baf_ri_2020", "--out", "geography")
    assert command(*given, "--quiet") == ""
    assert json.loads(command(*given, "--json")) == json.loads(Path("geography/import.json").read_text())


def test_rules_of_the_guide_are_those_of_the_code():
    from tallyveil.geography.census.codes import CLASSES, STATES, STRONG_MCD_STATES

    rows = re.findall(r"^\| (\d{4}) to (\d{4}) \| (.*?) \| (yes|no) \|$", GUIDE, re.MULTILINE)
    assert rows == [(one.first, one.last, one.name, "yes" if one.in_spine else "no") for one in CLASSES]
    flat = " ".join(GUIDE.split())
    assert all(STATES[state].name in flat for state in STRONG_MCD_STATES)
