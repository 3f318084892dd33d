"""Every command that opens a release refuses one that is not finished, or may still have its key."""

import json
import sys
from pathlib import Path

import pytest
from tests.samples import nightly

from tallyveil.cli.main import main
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

KEY = insecure_key("unfinished")
NOT_PRIVATE = "--i-understand-this-is-not-private"


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tallyveil", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.err

    return run


def refused(command, *words: object) -> None:
    code, said = command(*words)
    assert code == 8, said
    assert "release-unfinished" in said
    assert "Run the command that began it once more" in " ".join(said.split())


@pytest.fixture
def release(small_release, tmp_path):
    return run_release(load_plan(small_release), tmp_path / "out", test_key=KEY, workers=1).path


def with_key(root: Path) -> None:
    (root / "private").mkdir(mode=0o700)
    (root / "private" / "run.json").write_text("{}")


def without_manifest(root: Path) -> None:
    (root / "manifest.json").unlink()


@pytest.mark.parametrize("spoil", [nightly(with_key), without_manifest])
def test_commands_on_a_release(command, release, small_release, tmp_path, spoil):
    spoil(release)
    people = small_release.parent / "people.parquet"
    before = (release / "ledger.jsonl").read_bytes()
    refused(command, "report", release)
    refused(command, "intervals", release)
    refused(command, "intervals", release, "--district", small_release.parent / "geography.parquet")
    refused(command, "evaluate", release, "--truth", people, NOT_PRIVATE)
    refused(command, "account", "total", release)
    refused(command, "account", "total", tmp_path)
    assert (release / "ledger.jsonl").read_bytes() == before
    assert not (release / "report.html").exists()


@pytest.mark.parametrize("spoil", [with_key, without_manifest])
def test_commands_on_a_safetab_release(command, tmp_path, spoil):
    out = tmp_path / "out"
    out.mkdir()
    (out / "ledger.jsonl").write_text("")
    (out / "manifest.json").write_text(json.dumps({"kind": "safetab"}))
    spoil(out)
    refused(command, "report", out)
    refused(command, "safetab", "validate", "p", "d", "--finished", out)
    refused(command, "safetab", "evaluate", "p", "d", "--finished", out, NOT_PRIVATE)
    refused(command, "safetab", "consistent", "p", "d", "--finished", out, "--out", tmp_path / "consistent")
    assert not (tmp_path / "consistent").exists()


def test_the_command_finishes_what_lacks_only_its_last_step(command, release, small_release):
    with_key(release)
    words = (
        "run",
        small_release,
        "--out",
        release,
        "--insecure-test-key",
        "unfinished",
        "-q",
        "--workers",
        1,
    )
    code, said = command(*words)
    assert code == 0, said
    assert not (release / "private").exists()
    assert command("report", release)[0] == 0


@pytest.mark.nightly
def test_files_of_another_run_are_no_part_of_a_release(command, release, small_release, tmp_path):
    """Tables of one run beside the measurements of another."""
    other = run_release(
        load_plan(small_release), tmp_path / "other", test_key=insecure_key("x"), workers=1
    ).path
    path = Path("tables") / "geolevel=Town" / "query=age" / "part-00000.parquet"
    (release / path).write_bytes((other / path).read_bytes())
    code, said = command("report", release)
    assert code == 8
    assert "release-damaged" in said
    assert "another run" in said
