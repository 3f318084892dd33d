"""After a look at the truth every output says so, and what was published keeps its total."""

import hashlib
import json
import sys

import pytest

from tallyveil.cli.main import main
from tallyveil.errors import BudgetError


@pytest.fixture
def tallyveil(monkeypatch, capsys):
    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["tallyveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code or 0) == code, said.err
        return said.err if code else said.out

    return run


def test_an_evaluated_release_is_marked_and_keeps_its_total(tallyveil, small_release, tmp_path):
    out, truth = tmp_path / "out", small_release.parent / "people.parquet"
    first = json.loads(tallyveil("run", small_release, "--out", out, "--json"))
    assert (first["protected"], first["warnings"]) == (True, [])
    assert first["privacy"]["epsilon"] == first["privacy"]["exact"]["epsilon"]["upper"]
    assert first["privacy"]["epsilon"] < first["privacy"]["classical_epsilon"]
    before = json.loads(tallyveil("account", "total", out, "--json"))
    assert "not_covered" not in before
    for _ in range(2):  # a second look is another line of the ledger, and no second warning
        evaluated = json.loads(
            tallyveil("evaluate", out, "--truth", truth, "--i-understand-this-is-not-private", "--json")
        )
        assert evaluated["protected"] is False
        assert evaluated["warning"].startswith("NOT PRIVATE")
        assert evaluated["errors"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["protected"] is True  # the release itself is as private as it was
    assert len(manifest["warnings"]) == 1
    assert "NOT PRIVATE" in manifest["warnings"][0]
    assert [look["line"] for look in manifest["declassified"]] == [2, 3]
    for file in manifest["files"]:
        assert hashlib.sha256((out / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    again = json.loads(tallyveil("run", small_release, "--out", out, "--json"))
    assert again["warnings"] == manifest["warnings"]
    assert "NOT PRIVATE" in tallyveil("run", small_release, "--out", out)
    after = json.loads(tallyveil("account", "total", out, "--json"))
    assert after["epsilon"] == before["epsilon"]
    assert [act[:12] for act in after["not_covered"]] == ["NOT PRIVATE:"] * 2
    assert "line 3 of" in after["not_covered"][1]
    assert "not covered: NOT PRIVATE: true counts declassified" in tallyveil("account", "total", out)


def test_a_test_key_is_marked_and_has_no_total(tallyveil, small_release, tmp_path):
    out = tmp_path / "out"
    made = json.loads(
        tallyveil("run", small_release, "--out", out, "--json", "--insecure-test-key", "declassified")
    )
    assert made["protected"] is False
    assert "protects nobody" in made["warnings"][0]
    assert "insecure test key" in tallyveil("account", "total", out, code=BudgetError.exit_code)
