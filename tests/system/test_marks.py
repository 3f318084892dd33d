"""Whatever shows a release of a test key, or one that was compared with the truth, says so.

A walk over the outputs of all products: what commands print for readers and for programs, pages, manifests, files of
publications and sites, and what notebooks show.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
import pytest
from tests import toy_country as toy
from tests.samples import nightly
from tests.signing import sign
from tests.unit.files.test_manifest import DECLARATION
from tests.unit.products.dhc.tables.test_publication import make_release

import tallyveil
from tallyveil.accounting.events import TEST_KEY as TEST_KEY_EVENT
from tallyveil.accounting.events import NonPrivateEvent
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.files.declassified import mark_declassified
from tallyveil.files.finished import ledger_record
from tallyveil.files.manifest_files import read_manifest, write_manifest
from tallyveil.files.marks import DECLASSIFIED, NOT_PRIVATE, TEST_KEY, release_marks
from tallyveil.products.topdown.pl94 import publication
from tallyveil.schema.presets import load_preset

KEY = ("--insecure-test-key", "marks")
UNDERSTOOD = "--i-understand-this-is-not-private"
STATES = {"test key": TEST_KEY, "evaluated": DECLASSIFIED}
ROOT = Path(__file__).parents[2]


def flat(text: str) -> str:
    """A text or page without its lines, tags and escapes."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).replace("\\n", " ").split())


def said_by_file(path: Path) -> str:
    """All that a file says: its text, or the metadata of a table."""
    if path.suffix == ".parquet":
        return flat(str(pl.read_parquet_metadata(path)))
    return flat(path.read_text())


class Outputs:
    """What commands print and write of a release, by what it is."""

    def __init__(self, command: Callable[..., str]) -> None:
        self.command = command
        self.said: dict[str, str] = {}
        self.stated: dict[str, dict[str, Any]] = {}

    def printed(self, *words: Any, into: str | None = None) -> None:
        """What a command prints for readers and for programs; `into` names the flag of a new folder."""
        name = " ".join(str(word) for word in words[:2] if not isinstance(word, Path))
        for form in ("text", "json"):
            folder = self.folder / f"{name}-{form}".replace(" ", "-")
            own = () if into is None else (into, folder)
            text = self.command(*words, *own, *(("--json",) if form == "json" else ()))
            if form == "json":
                self.stated[name] = json.loads(text)
            else:
                self.said[name] = flat(text)
                self.files(name, folder)

    folder = Path()

    def files(self, name: str, *paths: Path) -> None:
        for path in paths:
            for file in sorted(path.rglob("*")) if path.is_dir() else [path] * path.is_file():
                if file.name in MARKED or (file.suffix == ".parquet" and name.startswith("publish")):
                    self.said[f"{name}: {file.name}"] = said_by_file(file)

    def require(self, mark: str, *, protected: bool) -> None:
        unmarked = [name for name, text in self.said.items() if mark not in text or NOT_PRIVATE not in text]
        assert not unmarked
        for name, content in self.stated.items():
            assert content["protected"] is protected, name
            assert any(mark in warning for warning in content["warnings"]), name


MARKED = {"report.html", "README.txt", "_README.txt"}
"""Files for readers. Those for programs are asked by name."""


@pytest.fixture
def outputs(command, tmp_path) -> Outputs:
    found = Outputs(command)
    found.folder = tmp_path / "outputs"
    found.folder.mkdir()
    return found


def manifests(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted([*root.rglob("manifest.json"), *root.rglob("programme.json")]):
        if "private" not in path.parts:
            yield f"{path.parent.name}/{path.name}", json.loads(path.read_text())


def states(in_suite: str) -> pytest.MarkDecorator:
    """Both states of a release. One is in the suite: what is said of either comes from the same lines."""
    return pytest.mark.parametrize(
        "state", [state if state == in_suite else nightly(state) for state in STATES]
    )


def key_of(state: str) -> tuple[str, ...]:
    return KEY if state == "test key" else ()


@states("evaluated")
def test_a_release_and_what_follows_from_it(outputs, state, small_release, tmp_path):
    command, out = outputs.command, tmp_path / "out"
    run = ("run", small_release, "--out", out, *key_of(state))
    command(*run, "--quiet")
    command("intervals", out, "--quiet")
    if state == "evaluated":
        truth = small_release.parent / "people.parquet"
        command("evaluate", out, "--truth", truth, UNDERSTOOD, "--quiet")
    outputs.files("release", out / "report.html", out / "intervals")
    outputs.said["datapackage.json"] = flat(json.loads((out / "datapackage.json").read_text())["description"])
    outputs.stated.update(manifests(out))
    outputs.printed(*run)
    outputs.printed("report", out)
    outputs.printed("intervals", out)
    for form in ("csv", "sdmx", "json-stat", "px", "xlsx"):
        outputs.printed("publish", form, out, into="--out")
    require_forms(outputs)
    outputs.printed("measurements", "export", out, "--layout", "tidy", into="--out")
    outputs.printed("explore", out, into="--out")
    outputs.stated["publication.json"] = json.loads(
        (outputs.folder / "publish-csv-json" / "publication.json").read_text()
    )
    site = outputs.folder / "explore-json"
    outputs.said["site"] = NOT_PRIVATE + " ".join(
        flat(path.read_text(errors="replace")) for path in site.rglob("*") if path.suffix in (".json", ".js")
    )
    opened = tallyveil.open(out)
    assert NOT_PRIVATE in repr(opened)
    outputs.said["notebook"] = flat(opened._repr_html_())
    outputs.printed("status", out)
    require_districts(outputs, opened, tmp_path)
    outputs.require(STATES[state], protected=state == "evaluated")


def require_forms(outputs: Outputs) -> None:
    """Every file of a form says it, or the file that describes it: a workbook on each of its sheets."""
    paths = sorted(
        path
        for form in ("json-stat", "px")
        for path in outputs.folder.glob(f"publish-{form}-text/tables/**/*.*")
    )
    structure, workbook = (
        outputs.folder / "publish-sdmx-text" / "structure.xml",
        outputs.folder / "publish-xlsx-text" / "tables.xlsx",
    )
    outputs.said |= {
        f"{path.parent.name}/{path.name}": flat(path.read_text().replace('"\n"', ""))
        for path in [*paths, structure]
    }
    for sheet in openpyxl.load_workbook(workbook):
        if sheet.title != "Contents":
            outputs.said[f"sheet {sheet.title}"] = flat(f"{sheet['A1'].value} {sheet['A2'].value}")


def require_districts(outputs: Outputs, opened: tallyveil.Release, folder: Path) -> None:
    """Walk what is said of districts, and of other objects that a release gives."""
    codes = opened.table("Block", "total")["geocode"].to_list()
    district, other, plan = folder / "district.csv", folder / "other.csv", folder / "plan.csv"
    pl.DataFrame({"geocode": codes[:2]}).write_csv(district)
    pl.DataFrame({"geocode": codes[2:4]}).write_csv(other)
    pl.DataFrame({"geocode": codes[:4], "district": list("AABB")}).write_csv(plan)
    for name, words in {
        "a district": ("--district", district),
        "a difference": ("--district", district, "--minus", other),
        "a plan": ("--district", plan),
    }.items():
        asked = ("intervals", opened.path, *words, "--tables", "total")
        outputs.said[name] = flat(outputs.command(*asked))
        outputs.stated[name] = json.loads(outputs.command(*asked, "--json"))
    one, two = opened.district(codes[:2]), opened.district(codes[2:4])
    shown: list[Any] = [
        opened.guarantee,
        one.estimate(["total"]),
        opened.difference(one, two, queries=["total"]),
        opened.quantities({"one": one.count("total")}),
    ]
    for said in [*shown, one, opened.area(codes[0]), opened.districts(plan)]:
        assert repr(said).endswith(f"; {NOT_PRIVATE}, see warnings>")
    for said in shown:
        assert f"{NOT_PRIVATE}, see warnings" in said._repr_html_()
        assert said.warnings == opened.warnings


def test_measurements(outputs, small_release, tmp_path):
    out = tmp_path / "out"
    words = ("measure", small_release, "--out", out, *KEY)
    outputs.command(*words, "--quiet")
    outputs.printed(*words)
    outputs.printed("measurements", "export", out, "--layout", "tidy", into="--out")
    outputs.stated.update(manifests(out))
    outputs.said["notebook"] = flat(tallyveil.open(out)._repr_html_())
    outputs.printed("status", out)
    outputs.require(TEST_KEY, protected=False)
    (out / "manifest.json").unlink()
    outputs.printed("status", out)  # by the ledger
    outputs.require(TEST_KEY, protected=False)


@states("test key")
def test_a_programme(outputs, state, small_release, tmp_path):
    command, out = outputs.command, tmp_path / "out"
    homes = small_release.read_text().replace('name = "people"', 'name = "homes"\nunit = "household"')
    (small_release.parent / "homes.toml").write_text(homes)
    programme = small_release.parent / "programme.toml"
    programme.write_text(
        '[programme]\nname = "two"\n[[releases]]\nname = "persons"\nfile = "release.toml"\n'
        '[[releases]]\nname = "homes"\nfile = "homes.toml"\n'
    )
    words = ("run", programme, "--out", out, *key_of(state))
    command(*words, "--quiet")
    if state == "evaluated":
        truth = small_release.parent / "people.parquet"
        command("evaluate", out / "homes", "--truth", truth, UNDERSTOOD, "--quiet")
    outputs.files("programme", out / "report.html")
    outputs.stated["programme.json"] = json.loads((out / "programme.json").read_text())
    outputs.printed(*words)
    outputs.printed("report", out)
    made = tallyveil.run_programme(programme, out, insecure_test_key=None if state == "evaluated" else KEY[1])
    assert NOT_PRIVATE in repr(made)
    outputs.printed("status", out)
    stated = outputs.stated["status"]
    assert stated["warnings"] == list(made.warnings)
    assert [one["warnings"] for one in stated["releases"]] == [
        list(release.warnings) for release in made.releases.values()
    ]
    outputs.said["notebook"] = flat(made._repr_html_())
    outputs.require(STATES[state], protected=state == "evaluated")
    require_signature(made, "programme.json")


def test_the_page_of_a_programme_says_what_a_release_says_now(small_release, tmp_path, command):
    """Also where the release was evaluated by an earlier version, or in another place."""
    out, programme = tmp_path / "out", small_release.parent / "programme.toml"
    programme.write_text('[programme]\nname = "p"\n[[releases]]\nname = "persons"\nfile = "release.toml"\n')
    command("run", programme, "--out", out, "--quiet")
    before = (out / "programme.json").read_bytes()
    truth = small_release.parent / "people.parquet"
    command("evaluate", out / "persons", "--truth", truth, UNDERSTOOD, "--quiet")
    (out / "programme.json").write_bytes(before)
    assert DECLASSIFIED in flat(command("report", out))
    assert json.loads((out / "programme.json").read_text())["warnings"] == [DECLASSIFIED]
    assert DECLASSIFIED in said_by_file(out / "report.html")


RECORDS = {
    "dhc": (
        "dhc-units",
        [(0, (0, 0, 3, 1, 1, 0, 66), 2), (2, (33, 2, 9, 2, 7, 4, 522), 1)],
        ("--named", "H3"),
    ),
    "pl94": ("pl94-persons", [(0, (0, 0, 0, 0), 2), (2, (0, 1, 1, 5), 3)], ()),
}


@pytest.mark.parametrize("product", RECORDS)
@states("evaluated")
def test_publications(outputs, state, product, tmp_path, monkeypatch):
    # The folder is written by hand and has no plan that a run would write.
    monkeypatch.setattr(publication, "with_guarantee", lambda _, manifest: manifest)
    preset, records, flags = RECORDS[product]
    out = make_release(tmp_path / "out", load_preset(preset), records)
    manifest = read_manifest(out)
    with Ledger(out / "ledger.jsonl", DECLARATION, out.name) as ledger:
        event = TEST_KEY_EVENT if state == "test key" else NonPrivateEvent("a look at the truth")
        ledger.declassify(event, state, state)
        if state == "test key":
            marks = {"protected": False, "warnings": release_marks(protected=False)}
            write_manifest(out, replace(manifest, ledger=ledger_record(out), **marks))
        else:
            mark_declassified(out, ledger.entries)
    outputs.printed("publish", product, out, *flags, into="--out")
    outputs.stated.update(manifests(out))
    outputs.require(STATES[state], protected=state == "evaluated")


def module_of(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def require_product(
    outputs: Outputs, state: str, out: Path, run: tuple[Any, ...], evaluate: tuple[Any, ...]
) -> None:
    """Make a release with one command, compare it with the truth with another, and walk its outputs."""
    outputs.command(*run, *key_of(state), "--quiet")
    if state == "evaluated":
        outputs.command(*evaluate, UNDERSTOOD, "--quiet")
    outputs.files("release", out / "report.html")
    outputs.stated.update(manifests(out))
    outputs.printed(*run, *key_of(state))
    outputs.printed("report", out)
    outputs.printed("status", out)
    opened = tallyveil.open(out)
    assert NOT_PRIVATE in repr(opened)
    outputs.said["notebook"] = flat(opened._repr_html_())
    outputs.require(STATES[state], protected=state == "evaluated")
    require_signature(opened, "manifest.json")


def require_signature(made: Any, signed: str) -> None:
    """The page and the notebook say who signed the list of the files, and `verify` that the page follows."""
    page = made.path / "report.html"
    assert f"nobody had signed the list of the published files ({signed})." in flat(page.read_text())
    fingerprint = sign(made.path / signed)
    assert f"signed by {fingerprint}" in flat(made._repr_html_())
    assert tallyveil.verify(made.path).signature == f"signed by {fingerprint}"
    made.report()
    assert f"{signed} when this page was drawn: signed by {fingerprint}." in flat(page.read_text())
    assert tallyveil.verify(made.path).wrong == ()


@pytest.mark.nightly
@states("test key")
def test_safetab(outputs, state, tmp_path):
    out = tmp_path / "out"
    params, data = toy.write_params(tmp_path / "p"), toy.write_data(tmp_path / "d", toy.person_rows(300))
    inputs = (params, data)
    run, evaluate = (
        ("safetab", "run", *inputs, "--out", out),
        ("safetab", "evaluate", *inputs, "--finished", out),
    )
    require_product(outputs, state, out, run, evaluate)


@pytest.mark.nightly
@pytest.mark.parametrize("state", STATES)
def test_safetab_groups(outputs, state, tmp_path):
    example = ROOT / "examples" / "hospital_stays"
    module_of(example / "make_stays.py", "make_stays_marks").write_stays(tmp_path / "stays.csv", 300)
    out = tmp_path / "out"
    inputs = (example / "stays.toml", tmp_path / "stays.csv")
    run, evaluate = (
        ("safetab", "run", *inputs, "--out", out),
        ("safetab", "evaluate", *inputs, "--finished", out),
    )
    require_product(outputs, state, out, run, evaluate)


TABLE = """
[release]
name = "table"
[table]
path = "table.csv"
count = "n"
[[attributes]]
name = "county"
levels = ["A", "B", "C"]
[[attributes]]
name = "sex"
levels = ["f", "m"]
[[constraints]]
name = "counties"
margin = ["county"]
[privacy]
epsilon = "1"
[mechanism]
law = "laplace"
norm = "l1"
epsilon = "0.25"
distance = "4"
"""


@states("test key")
def test_a_table(outputs, state, tmp_path):
    (tmp_path / "table.toml").write_text(TABLE)
    pl.DataFrame({"county": list("AABBCC"), "sex": list("fm" * 3), "n": [3, 4, 5, 6, 7, 8]}).write_csv(
        tmp_path / "table.csv"
    )
    out = tmp_path / "out"
    run = ("subspace", "release", tmp_path / "table.toml", "--out", out)
    require_product(outputs, state, out, run, ("evaluate", out, "--truth", tmp_path / "table.csv"))
