"""After a look at the truth every output says so, and what was published keeps its total."""

import hashlib
import json

from tallyveil.errors import BudgetError, StoreError


def test_an_evaluated_release_is_marked_and_keeps_its_total(command, small_release, tmp_path):
    out, truth = tmp_path / "out", small_release.parent / "people.parquet"
    first = json.loads(command("run", small_release, "--out", out, "--json"))
    assert (first["protected"], first["warnings"]) == (True, [])
    assert first["privacy"]["epsilon"] == first["privacy"]["exact"]["epsilon"]["upper"]
    assert first["privacy"]["epsilon"] < first["privacy"]["classical_epsilon"]
    before = json.loads(command("account", "total", out, "--json"))
    assert "not_covered" not in before
    for _ in range(2):  # a second look is another line of the ledger, and no second warning
        evaluated = json.loads(
            command("evaluate", out, "--truth", truth, "--i-understand-this-is-not-private", "--json")
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
    again = json.loads(command("run", small_release, "--out", out, "--json"))
    assert again["warnings"] == manifest["warnings"]
    assert "NOT PRIVATE" in command("run", small_release, "--out", out)
    after = json.loads(command("account", "total", out, "--json"))
    assert after["epsilon"] == before["epsilon"]
    assert [act[:12] for act in after["not_covered"]] == ["NOT PRIVATE:"] * 2
    assert "line 3 of" in after["not_covered"][1]
    assert "not covered: NOT PRIVATE: true counts declassified" in command("account", "total", out)

    # A look whose line is cut off afterwards is missed by every command that opens the release.
    ledger = out / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    for words in (["account", "total", out], ["report", out], ["run", small_release, "--out", out]):
        assert "does not begin with the lines" in command(*words, code=StoreError.exit_code)


def test_a_test_key_is_marked_and_has_no_total(command, small_release, tmp_path):
    out = tmp_path / "out"
    made = json.loads(
        command("run", small_release, "--out", out, "--json", "--insecure-test-key", "declassified")
    )
    assert made["protected"] is False
    assert "protects nobody" in made["warnings"][0]
    assert "insecure test key" in command("account", "total", out, code=BudgetError.exit_code)
