"""The commands of docs/measure-and-estimate.md run as they stand."""

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "measure-and-estimate.md").read_text()


@pytest.mark.nightly
def test_guide(small_release, monkeypatch, command):
    monkeypatch.chdir(small_release.parent)
    commands = re.findall(r"^tallyveil (.*)$", GUIDE, re.MULTILINE)
    assert [line.split()[0] for line in commands] == ["measure", "estimate", "estimate"]
    (toml,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    Path("other.toml").write_text(toml)
    for line in commands:
        if "release-2" in line:
            Path("people.parquet").unlink()
        command(*line.split(), "--quiet")
    assert Path("release", "report.html").is_file()
    assert Path("release-2", "tables").is_dir()
