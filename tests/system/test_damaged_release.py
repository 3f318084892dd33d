"""A finished release that was damaged is refused before anything is written into its folder."""

import json
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.samples import nightly

from tallyveil.cli.main import main
from tallyveil.errors import StoreError
from tallyveil.files.manifest_files import read_manifest, require_whole
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.evaluate import evaluate_release
from tallyveil.products.topdown.run.run import run_release


@pytest.mark.parametrize(
    ("command", "name"),
    [
        nightly("evaluate", "plan.json"),
        ("evaluate", "ledger.jsonl"),
        ("intervals", "plan.json"),
        nightly("intervals", "ledger.jsonl"),
    ],
)
def test_nothing_is_added_to_a_damaged_release(small_release, tmp_path, monkeypatch, command, name):
    out = tmp_path / "out"
    small_release.write_text(small_release.read_text() + 'measurements = "full"\n')
    run_release(load_plan(small_release), out, test_key=insecure_key("damaged"))
    path = out / name
    path.write_bytes(b"[" + path.read_bytes())
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    flags = ["--truth", str(small_release.parent / "people.parquet"), "--i-understand-this-is-not-private"]
    arguments = ["tallyveil", command, str(out), *(flags if command == "evaluate" else ())]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", [*map(nightly, ("report", "evaluate")), "intervals"])
def test_a_ledger_whose_spend_was_cut_off_is_refused(small_release, tmp_path, monkeypatch, capsys, command):
    out = tmp_path / "out"
    small_release.write_text(small_release.read_text() + 'measurements = "full"\n')
    run_release(load_plan(small_release), out, test_key=insecure_key("damaged"))
    ledger = out / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    flags = ["--truth", str(small_release.parent / "people.parquet"), "--i-understand-this-is-not-private"]
    monkeypatch.setattr(
        sys, "argv", ["tallyveil", command, str(out), *(flags if command == "evaluate" else ())]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert "ledger-damaged" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.nightly
def test_nothing_is_declassified_for_a_release_that_lacks_a_histogram(small_release, tmp_path):
    out = tmp_path / "out"
    run_release(load_plan(small_release), out, test_key=insecure_key("damaged"))
    (out / "histogram" / "Block.parquet").unlink()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(StoreError):
        evaluate_release(out, small_release.parent / "people.parquet")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def edited(path: Path) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "title": "another"}, indent=2, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("damage", [Path.unlink, edited, lambda path: path.write_bytes(b"{")])
def test_nothing_is_declassified_for_a_release_whose_package_cannot_be_marked(
    small_run, small_release, damage
):
    """The ledger would show a look of which nothing came, and a new digest would vouch for what somebody changed."""
    damage(small_run / "datapackage.json")
    before = {path: path.read_bytes() for path in small_run.rglob("*") if path.is_file()}
    with pytest.raises(StoreError, match=r"datapackage\.json"):
        evaluate_release(small_run, small_release.parent / "people.parquet")
    assert {path: path.read_bytes() for path in small_run.rglob("*") if path.is_file()} == before


def test_a_release_is_marked_by_the_next_process_where_the_first_was_killed_in_it(
    small_run, small_release, killed_at
):
    truth = small_release.parent / "people.parquet"
    assert killed_at(1, lambda: evaluate_release(small_run, truth))  # the package alone has its mark
    assert "true counts" not in (small_run / "manifest.json").read_text().lower()
    evaluate_release(small_run, truth)
    manifest = read_manifest(small_run)
    assert manifest.declassified
    require_whole(small_run, manifest)


def change(path: Path) -> None:
    """Raise counts, noisy answers or bounds, and leave everything else as it is, also what the file says of itself."""
    tags = {key: text for key, text in pl.read_parquet_metadata(path).items() if key.startswith("tallyveil.")}
    frame = pl.read_parquet(path)
    number = next(name for name in ("count", "values", "lower") if name in frame.columns)
    frame.with_columns(pl.col(number) + 1).write_parquet(path, metadata=tags)


def contents(root: Path) -> dict[Path, bytes]:
    """Every file but the page, which is drawn anew before anything else."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and path.suffix != ".html"}


@pytest.fixture(scope="module")
def released(tmp_path_factory, make_small_inputs) -> Path:
    """A release beside its inputs."""
    root = tmp_path_factory.mktemp("released")
    run_release(load_plan(make_small_inputs(root)), root / "out", test_key=insecure_key("damaged"), workers=1)
    return root


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (["intervals", "out", "--tables", "total"], "tables/geolevel=Town/query=home"),
        (["intervals", "out", "--tables", "total", "--leave-tables"], "measurements/Town/total"),
        (["intervals", "out"], "histogram/Block.parquet"),
        (["intervals", "out", "--district", "blocks.csv"], "histogram/Block.parquet"),
        (["intervals", "out", "--district", "blocks.csv"], "bounds/00.parquet"),
        (["report", "out"], "histogram/Town.parquet"),
        (
            ["evaluate", "out", "--truth", "people.parquet", "--i-understand-this-is-not-private"],
            "histogram/Block.parquet",
        ),
    ],
)
def test_what_follows_from_a_changed_file_is_not_published(
    released, tmp_path, monkeypatch, command, arguments, changed
):
    """Each file still opens, and names the run. New digests would vouch for what somebody changed."""
    shutil.copytree(released, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    Path("blocks.csv").write_text("geocode\nP0000\n")
    path = Path("out", changed)
    change(path if path.is_file() else next(path.glob("part-*.parquet")))
    before = contents(Path("out"))
    said = command(*arguments, code=8)
    assert "release-damaged" in said
    assert "is not the file that the manifest" in " ".join(said.split())
    assert contents(Path("out")) == before
