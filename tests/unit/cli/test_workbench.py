"""`tallyveil plan --workbench`: what it writes, and which flags do not go with it."""

import json
import sys

import pytest

from tallyveil.cli.main import main


@pytest.fixture
def ended(monkeypatch, capsys):
    """A function that runs `tallyveil plan` and returns its exit code, output and messages."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tallyveil", "plan", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        said = capsys.readouterr()
        return int(caught.value.code or 0), said.out, said.err

    return run


def test_no_data_is_opened_for_a_regular_spine(ended, small_release, tmp_path):
    for path in small_release.parent.glob("*.parquet"):
        path.unlink()
    code, out, _ = ended(small_release, "--workbench", tmp_path / "site", "--json")
    assert code == 0
    assert json.loads(out)["why_no_estimates"] is None
    content = json.loads((tmp_path / "site/data/site.json").read_text(encoding="utf-8"))
    assert content["plan"]["spine"]["kind"] == "regular"


def test_the_geography_is_used_if_it_may_be_opened(ended, small_release, tmp_path):
    assert ended(small_release, "--workbench", tmp_path / "site", "--read-geography", "--quiet")[:2] == (
        0,
        "",
    )
    spine = json.loads((tmp_path / "site/data/site.json").read_text(encoding="utf-8"))["plan"]["spine"]
    assert spine["kind"] == "geography"
    assert [len(codes) for codes in spine["codes"]] == spine["numbers"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--open"],
        ["--compare", "x.toml"],
        ["--workbench", "OUT", "--people", "5"],
        ["--workbench", "OUT", "--out", "x"],
    ],
)
def test_flags_that_do_not_go_together(ended, small_release, tmp_path, flags):
    code, _, said = ended(small_release, *[str(tmp_path / flag) if flag == "OUT" else flag for flag in flags])
    assert code == 2
    assert "bad-flag" in said
    assert not (tmp_path / "OUT").exists()
