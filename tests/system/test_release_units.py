"""A release of households says so wherever it says what it counts."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

PEOPLE = re.compile(rb"\b(persons?|people)\b", re.IGNORECASE)


@pytest.fixture
def households(edit):
    """A release file that counts households; nothing in it is called after people."""
    edit('name = "people"\n[[schema', 'name = "homes"\nunit = "household"\n[[schema')
    path = edit('path = "people.parquet"', 'path = "records.parquet"')
    (path.parent / "people.parquet").rename(path.parent / "records.parquet")
    return path


def mentions(data: bytes) -> list[bytes]:
    return [match.group() for match in PEOPLE.finditer(data)]


def test_no_file_and_no_message_speaks_of_people(households, command, tmp_path):
    """Before, the report, the plan and the closing box called every record a person."""
    out = tmp_path / "out"
    truth = households.parent / "records.parquet"
    said = command("plan", households, "--read-geography")
    said += command("run", households, "--out", out)
    said += command("intervals", out)
    codes = pl.read_parquet(out / "geography.parquet")["Block"]
    pl.DataFrame({"geocode": codes[:5]}).write_csv(tmp_path / "district.csv")
    said += command("intervals", out, "--district", tmp_path / "district.csv")
    said += command("evaluate", out, "--truth", truth, "--i-understand-this-is-not-private")
    assert mentions(said.encode()) == []
    assert "households (as published)" not in said  # the box has two columns
    assert re.search(r"households\W+[\d,]+ \(as published\)", said)
    assert "Errors in households" in said
    written = [path for path in sorted(out.rglob("*")) if path.is_file()]
    texts = [path for path in written if path.suffix in (".html", ".json", ".jsonl", ".txt")]
    assert {path.name for path in texts} >= {"report.html", "manifest.json", "_README.txt", "errors.json"}
    for path in texts:
        assert mentions(path.read_bytes()) == [], path
    for path in set(written) - set(texts):
        if path.suffix == ".parquet":
            assert mentions(json.dumps(pl.read_parquet_metadata(path)).encode()) == [], path
    assert json.loads((out / "plan.json").read_text())["schema"]["unit"] == "household"
    page = Path(out / "report.html").read_text()
    assert "one household’s record differs" in page


def test_the_preset_of_units_takes_part(households, command):
    text = households.read_text()
    start, end = text.index("[schema]"), text.index("[privacy]")
    text = text[:start] + '[schema]\npreset = "pl94-units"\n\n' + text[end:]
    for old, new in (
        ("grown", "h1"),
        ('"age*home" = "1/2"\n', ""),
        ('h1 = "1/4"', 'h1 = "3/4"'),
        ('"age*home"', '"h1"'),
    ):
        text = text.replace(old, new)
    text = re.sub(r"\[\[bounds\]\].*?\n\n", "", text, flags=re.DOTALL)
    households.write_text(text.replace('"age", "home"', '"h1"').replace('["home", "h1"]', '["h1"]'))
    assert "standard deviation and margin (housing units)" in command("plan", households, "--details")
