"""Every product is known by its kind, and by its input: the right command does the work, any other one names it."""

import json
import shutil
from pathlib import Path

import pytest
from tests.unit.files.test_manifest import enter, manifest_of, put

from tallyveil.api import products
from tallyveil.api.products import (
    EVALUATE,
    EVALUATE_SAFETAB,
    PRODUCTS,
    is_programme,
    require_evaluation,
    require_input,
    write_page,
)
from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.manifest import ReleaseKind

EXAMPLES = Path(__file__).parents[3] / "examples"
RELEASE = EXAMPLES / "rhode_island" / "release.toml"
SAFETAB = EXAMPLES / "safetab"
NOT_PRIVATE = "--i-understand-this-is-not-private"


@pytest.fixture
def make(tmp_path):
    def release(kind: ReleaseKind) -> Path:
        enter(tmp_path)
        put(tmp_path, manifest_of(kind, tmp_path))
        return tmp_path

    return release


@pytest.fixture
def table(tmp_path) -> Path:
    """The beginning of a file of `tallyveil subspace`."""
    path = tmp_path / "table.toml"
    path.write_text('[release]\nname = "t"\n[table]\npath = "t.csv"\n[[attributes]]\nname = "a"\n')
    return path


def test_every_kind_has_its_entry_and_its_command():
    assert list(PRODUCTS) == list(ReleaseKind)
    for kind, product in PRODUCTS.items():
        assert product.usage.startswith(f"{kind.command} ")
    named = [key for product in PRODUCTS.values() for key in product.keys]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("kind", list(ReleaseKind))
def test_the_page_of_a_release_is_that_of_its_kind(make, monkeypatch, kind):
    asked: list[Path] = []
    own = products.ProductDoor(
        PRODUCTS[kind].usage, page=lambda out: asked.append(out) or out / "report.html"
    )
    monkeypatch.setattr(products, "PRODUCTS", {**PRODUCTS, kind: own})
    assert write_page(make(kind)).name == "report.html"
    assert len(asked) == 1


@pytest.mark.parametrize("kind", list(ReleaseKind))
@pytest.mark.parametrize("asked", [EVALUATE, EVALUATE_SAFETAB])
def test_a_release_is_evaluated_by_the_command_of_its_kind(make, kind, asked):
    release, own = make(kind), PRODUCTS[kind].evaluation
    if own == asked:
        assert require_evaluation(release, asked) is kind
        return
    with pytest.raises(StoreError) as caught:
        require_evaluation(release, asked)
    if kind is ReleaseKind.MEASUREMENTS:
        assert caught.value.code == "measured-only"
        return
    assert caught.value.code == "no-release"
    assert (own or "No command compares it with the truth") in str(caught.value)


def test_evaluate_names_the_command_and_reads_nothing(make, command):
    said = command("evaluate", make(ReleaseKind.SAFETAB), "--truth", "nowhere", NOT_PRIVATE, code=8)
    assert "tallyveil safetab evaluate PARAMS DATA --finished RUN" in said.replace("\n", " ")


def test_a_kind_that_is_not_known_is_met_with_the_kinds(make, command):
    release = make(ReleaseKind.TOPDOWN)
    content = json.loads((release / "manifest.json").read_text())
    put(release, {**{k: v for k, v in content.items() if k != "digest"}, "kind": "leaflet"})
    for words in (("report", release), ("evaluate", release, "--truth", "x", NOT_PRIVATE)):
        said = " ".join(command(*words, code=8).split())
        assert all(kind.value in said for kind in ReleaseKind)


def test_inputs_are_known_by_their_tables(small_release, table):
    require_input(small_release, ReleaseKind.TOPDOWN)
    require_input(table, ReleaseKind.SUBSPACE)
    # The files of a comparison and of attacks describe no release.
    for path in (path for path in EXAMPLES.glob("*/*.toml") if path.stem not in ("compare", "attack")):
        kinds = {"subspace": ReleaseKind.SUBSPACE, "hospital_stays": ReleaseKind.GROUPS}
        assert is_programme(path) == (path.stem == "programme")
        if not is_programme(path):
            require_input(path, kinds.get(path.parent.name, ReleaseKind.TOPDOWN))


@pytest.mark.parametrize("act", ["measure", "subspace release", "account epsilon --delta 1e-10 --plan"])
def test_a_programme_is_met_with_its_command(command, tmp_path, act):
    programme = EXAMPLES / "redistricting" / "programme.toml"
    out = ["--out", tmp_path / "out"] if "account" not in act else []
    said = " ".join(command(*act.split(), programme, *out, code=2).split())
    assert "account" in act or "tallyveil run PROGRAMME.TOML" in said


@pytest.mark.parametrize(
    ("act", "given", "wanted"),
    [
        ("run", None, "tallyveil subspace release TABLE.TOML"),
        ("measure", None, "tallyveil subspace release TABLE.TOML"),
        ("run", SAFETAB, "tallyveil safetab run PARAMS DATA"),
        ("run", SAFETAB / "config.json", "tallyveil safetab households PARAMS DATA"),
        ("subspace release", RELEASE, "tallyveil run RELEASE.TOML"),
        ("subspace release", SAFETAB, "tallyveil safetab run PARAMS DATA"),
    ],
)
def test_the_input_of_another_product_is_met_with_its_command(command, table, tmp_path, act, given, wanted):
    said = " ".join(command(*act.split(), given or table, "--out", tmp_path / "out", code=2).split())
    assert "other-product" in said
    assert wanted in said
    assert not (tmp_path / "out").exists()


def test_a_file_of_no_product_is_met_with_all_commands(tmp_path):
    path = tmp_path / "any.toml"
    path.write_text("[tool]\nname = 1\n")
    with pytest.raises(ConfigError, match=r"describes no product: it has the tables \[tool\]") as caught:
        require_input(path, ReleaseKind.TOPDOWN)
    assert all(product.usage in str(caught.value) for product in PRODUCTS.values())


def test_what_is_no_toml_is_left_to_the_reader_of_the_product(tmp_path):
    for text in (None, b"{", b"\xff"):
        path = tmp_path / "any.toml"
        shutil.rmtree(path, ignore_errors=True)
        if text is not None:
            path.write_bytes(text)
        require_input(path, ReleaseKind.TOPDOWN)
