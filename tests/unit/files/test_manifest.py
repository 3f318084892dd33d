"""One strict reader of manifests: whatever stands in a folder, it gives a manifest or says what is wrong."""

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.samples import few

from tallyveil.accounting.events import DiscreteGaussian, DiscreteLaplace, Neighbours, NonPrivateEvent
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.declared import MisfitError, adapter_of, validated
from tallyveil.errors import StoreError
from tallyveil.files.finished import LedgerRecord, ledger_record
from tallyveil.files.manifest import CONTENT, MANIFEST_FORMAT, Manifest, ReleaseKind, Spent
from tallyveil.files.manifest_files import read_listed_table, read_manifest, written_manifest
from tallyveil.storage.json_files import digest_of
from tallyveil.storage.write import file_digest

PLAN = {"name": "small", "shares": {"b": "1/2", "a": "1/2"}, "delta": "a"}
EVENT = DiscreteGaussian(Fraction(1), 1, 2)
TOPDOWN = (ReleaseKind.TOPDOWN, ReleaseKind.MEASUREMENTS)
DECLARATION = Declaration("rho", Fraction(3), Neighbours.BOUNDED)


def example(declaration: Any) -> Any:
    """The smallest value of a declaration that has an item in every list and a key in every object."""
    schema = adapter_of(declaration).json_schema()
    return example_of(schema, schema.get("$defs", {}))


def example_of(schema: dict[str, Any], parts: dict[str, Any]) -> Any:
    """The same of a JSON Schema."""
    if "$ref" in schema:
        return example_of(parts[schema["$ref"].rsplit("/", 1)[1]], parts)
    if choices := schema.get("oneOf", schema.get("anyOf")):
        return example_of(choices[0], parts)
    if fixed := schema.get("examples", schema.get("enum", [schema.get("const")]))[0]:
        return fixed
    items = schema.get("additionalProperties", True)
    if schema.get("type") == "object" and isinstance(items, dict):
        return {"any": example_of(items, parts)}
    if schema.get("type") == "array":
        return [example_of(schema["items"], parts)]
    inner = {key: example_of(part, parts) for key, part in schema.get("properties", {}).items()}
    return {"object": inner, "string": "a", "integer": 0, "number": 0.0, "boolean": False}.get(
        schema.get("type")
    )


def fits(content: dict[str, Any], kind: ReleaseKind) -> bool:
    """Whether a manifest fits the declarations of its kind."""
    privacy, body = CONTENT[kind]
    whole = {name: part for name, part in content.items() if name != "format"}
    try:
        validated(Manifest, whole)
        validated(privacy, content["privacy"])
        validated(body, content["body"])
    except (MisfitError, KeyError):
        return False
    return content["format"] == MANIFEST_FORMAT


def enter(folder: Path) -> LedgerRecord:
    """A ledger with one spend in a folder."""
    with Ledger(folder / "ledger.jsonl", DECLARATION, "a") as ledger:
        ledger.spend(EVENT, "a release", "a release")
    return ledger_record(folder)


def manifest_of(kind: ReleaseKind, folder: Path) -> dict[str, Any]:
    """A manifest with the least content of its kind, for the ledger in a folder; without its digest."""
    privacy, body = CONTENT[kind]
    manifest = {"format": MANIFEST_FORMAT, **example(Manifest)} | {
        "privacy": example(privacy),
        "body": example(body),
        "kind": kind.value,
        "protected": True,
        "declassified": [],
        "event": EVENT.to_mapping(),
        "spent": {"unit": "rho", "declared": "3", "spent": "1"},
        "ledger": asdict(ledger_record(folder)),
    }
    manifest["body"].pop("estimated_from", None)  # would name another run
    if "plan" in manifest["body"]:
        manifest["body"]["plan"] = PLAN
        manifest["plan_digest"] = digest_of(PLAN).hex()
    if kind in TOPDOWN:
        manifest["privacy"] |= {"budget_unit": "rho", "declared": "3", "spent": "1"}
    return manifest


def put(folder: Path, manifest: dict[str, Any], *, digest: str | None = None) -> None:
    """Write a manifest with a digest; its own, if none is given."""
    content = {**manifest, "digest": digest or digest_of(manifest).hex()}
    (folder / "manifest.json").write_text(json.dumps(content))


@pytest.fixture(autouse=True)
def ledger(tmp_path):
    enter(tmp_path)
    return tmp_path / "ledger.jsonl"


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


@pytest.mark.parametrize("kind", list(ReleaseKind))
def test_a_manifest_is_read_as_it_was_written(tmp_path, kind):
    content = manifest_of(kind, tmp_path)
    put(tmp_path, content)
    manifest = read_manifest(tmp_path, kind)
    assert manifest == read_manifest(tmp_path, *ReleaseKind)
    assert manifest.kind is kind
    assert manifest.spent == Spent("rho", Fraction(3), Fraction(1))
    assert {k: v for k, v in manifest.to_mapping().items() if k != "digest"} == content


@pytest.mark.parametrize("kind", few(1, list(ReleaseKind)))
def test_every_change_of_a_type_is_refused(tmp_path, kind):
    manifest = manifest_of(kind, tmp_path)
    for place in places(manifest)[1:]:
        if place[0] == "event" and len(place) > 2:
            continue
        for other in (None, {}, [], "", 1.5, {"x": []}, [[]], True):
            changed = json.loads(json.dumps(manifest))
            part = changed
            for key in place[:-1]:
                part = part[key]
            if type(part[place[-1]]) is type(other):
                continue
            part[place[-1]] = other
            put(tmp_path, changed)
            if fits(changed, kind):  # such as a float for an int where any number may stand
                with suppress(StoreError):
                    read_manifest(tmp_path, kind)
                continue
            with pytest.raises(StoreError):
                read_manifest(tmp_path, kind)


@pytest.mark.parametrize("kind", list(ReleaseKind))
def test_every_edit_is_seen_by_the_digest(tmp_path, kind):
    manifest = manifest_of(kind, tmp_path)
    digest = digest_of(manifest).hex()
    for place in places(manifest)[1:]:
        changed = json.loads(json.dumps(manifest))
        part = changed
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = [part[place[-1]]]
        put(tmp_path, changed, digest=digest)
        with pytest.raises(StoreError):
            read_manifest(tmp_path)
    put(tmp_path, manifest)
    read_manifest(tmp_path)


@pytest.mark.parametrize("kind", list(ReleaseKind))
def test_format_3_had_times_that_its_digest_does_not_cover(tmp_path, kind):
    manifest = manifest_of(kind, tmp_path)
    put(tmp_path, manifest)
    today = read_manifest(tmp_path)
    earlier = manifest | {"format": 3}
    for times in ({}, {"performance": []}, {"performance": [{"stage": "a", "seconds": 1.5}]}):
        put(tmp_path, earlier | times, digest=digest_of(earlier).hex())
        assert read_manifest(tmp_path) == today
    put(tmp_path, manifest | {"performance": []})
    with pytest.raises(StoreError):
        read_manifest(tmp_path)


RESTATED = {
    "event": lambda m: m.update(event=DiscreteGaussian(Fraction(4), 1, 2).to_mapping()),
    "spent": lambda m: m["spent"].update(spent="1/2"),
    "declared": lambda m: m["spent"].update(declared="1"),
    "unit": lambda m: m["spent"].update(unit="epsilon"),
    "no fraction": lambda m: m["spent"].update(spent="1/0"),
    "protected": lambda m: m.update(protected=False),
}


def replan(manifest: dict[str, Any], **changes: str) -> None:
    """Change a plan, with a digest that fits."""
    manifest["body"]["plan"] = manifest["body"]["plan"] | changes
    manifest["plan_digest"] = digest_of(manifest["body"]["plan"]).hex()


RESTATED_TOPDOWN = {
    "plan spent": lambda m: replan(m, spent="1/2"),
    "plan declared": lambda m: replan(m, declared="9"),
    "plan neighbours": lambda m: replan(m, neighbours="unbounded"),
    "privacy spent": lambda m: m["privacy"].update(spent="1/2"),
    "privacy unit": lambda m: m["privacy"].update(budget_unit="epsilon"),
    "privacy neighbours": lambda m: m["privacy"].update(neighbours="unbounded"),
    "privacy delta": lambda m: m["privacy"].update(delta="1/2"),
    "exact delta": lambda m: m["privacy"]["exact"].update(delta="1/2"),
    "epsilon alone": lambda m: m["privacy"].update(epsilon=0.5),
}


@pytest.mark.parametrize("kind", list(ReleaseKind))
@pytest.mark.parametrize("edit", [*RESTATED, *RESTATED_TOPDOWN])
def test_an_edit_with_a_new_digest_is_held_to_ledger_and_plan(tmp_path, kind, edit):
    """Whoever computes the digest again can still not state another event, budget, relation or delta."""
    if edit in RESTATED_TOPDOWN and kind not in TOPDOWN:
        return
    manifest = manifest_of(kind, tmp_path)
    put(tmp_path, manifest)
    read_manifest(tmp_path)
    (RESTATED | RESTATED_TOPDOWN)[edit](manifest)
    put(tmp_path, manifest)
    with pytest.raises(StoreError, match="is missing or is not what the run wrote") as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "release-damaged"


@pytest.mark.parametrize("kind", TOPDOWN)
def test_a_pure_epsilon_is_what_the_ledger_shows_as_spent(tmp_path, ledger, kind):
    ledger.unlink()
    event = DiscreteLaplace(Fraction(4), 1, 1)
    with Ledger(ledger, Declaration("epsilon", Fraction(3), Neighbours.BOUNDED), "a") as opened:
        opened.spend(event, "a release", "a release")
    manifest = manifest_of(kind, tmp_path) | {
        "event": event.to_mapping(),
        "spent": {"unit": "epsilon", "declared": "3", "spent": "1/4"},
    }
    manifest["privacy"] |= {"budget_unit": "epsilon", "spent": "1/4", "delta": "0", "epsilon": 0.25}
    put(tmp_path, manifest)
    assert read_manifest(tmp_path).privacy["epsilon"] == 0.25
    for other in (0.125, 0.5):
        manifest["privacy"]["epsilon"] = other
        put(tmp_path, manifest)
        with pytest.raises(StoreError, match=r"privacy\.epsilon") as caught:
            read_manifest(tmp_path)
        assert caught.value.code == "release-damaged"


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"{", b"[" * 100_000, b'{"format": 2, "format": 2}', b"9" * 5000],
    ids=["empty", "no keys", "list", "null", "not UTF-8", "cut", "nested", "a key twice", "long number"],
)  # fmt: skip
def test_what_is_no_manifest_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError) as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "release-unreadable"


def test_a_release_of_another_kind_is_named_with_its_command(tmp_path):
    put(tmp_path, manifest_of(ReleaseKind.SUBSPACE, tmp_path))
    with pytest.raises(
        StoreError, match=r"`tallyveil subspace release`.*`tallyveil run` or `tallyveil safetab run PARAMS`"
    ):
        read_manifest(tmp_path, ReleaseKind.TOPDOWN, ReleaseKind.SAFETAB)


def test_every_kind_has_a_command_of_its_own():
    assert len({kind.command for kind in ReleaseKind}) == len(ReleaseKind)


def test_a_table_is_read_if_it_is_the_one_that_the_manifest_lists(tmp_path):
    table = pl.DataFrame({"count": [1, 2]})
    table.write_parquet(tmp_path / "table.parquet")
    listed = {"path": "table.parquet", "bytes": 1, "sha256": file_digest(tmp_path / "table.parquet")}
    put(tmp_path, manifest_of(ReleaseKind.SUBSPACE, tmp_path) | {"files": [listed]})
    manifest = written_manifest(tmp_path)
    assert read_listed_table(tmp_path, manifest, "table.parquet").equals(table)
    pl.DataFrame({"count": [1, 3]}).write_parquet(tmp_path / "table.parquet")
    with pytest.raises(
        StoreError, match=r"table.parquet is not the file that the manifest of the release lists"
    ):
        read_listed_table(tmp_path, manifest, "table.parquet")
    (tmp_path / "table.parquet").unlink()
    with pytest.raises(StoreError, match=r"table.parquet cannot be read"):
        read_listed_table(tmp_path, manifest, "table.parquet")


def test_a_plan_that_was_edited_is_noticed(tmp_path):
    manifest = manifest_of(ReleaseKind.TOPDOWN, tmp_path)
    manifest["body"]["plan"] = {**PLAN, "name": "other"}
    put(tmp_path, manifest)
    with pytest.raises(StoreError, match=r"'body.plan' is missing or is not what the run wrote"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("kind", list(ReleaseKind))
@pytest.mark.parametrize("plan", [None, [], "a", 5])
def test_a_plan_that_is_no_object_is_refused(tmp_path, kind, plan):
    """Also in the body of a product that writes its plan into another file."""
    manifest = manifest_of(kind, tmp_path)
    manifest["body"]["plan"] = plan
    manifest["plan_digest"] = digest_of(plan).hex()
    put(tmp_path, manifest)
    with pytest.raises(StoreError, match=r"body\.plan"):
        read_manifest(tmp_path)


def test_an_empty_folder_holds_no_release(tmp_path):
    with pytest.raises(StoreError) as caught:
        read_manifest(tmp_path / "nothing")
    assert caught.value.code == "no-release"


def test_a_release_of_an_earlier_version_says_so(tmp_path):
    put(tmp_path, manifest_of(ReleaseKind.TOPDOWN, tmp_path) | {"format": 1})
    with pytest.raises(StoreError, match="earlier version") as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "release-format"


@pytest.mark.parametrize("how", ["no line end", "cut", "a line less", "empty", "changed"])
def test_a_ledger_that_lost_what_the_run_wrote_is_refused(tmp_path, ledger, how):
    whole = ledger.read_bytes()
    put(tmp_path, manifest_of(ReleaseKind.TOPDOWN, tmp_path))
    with Ledger(ledger, DECLARATION, "a") as opened:
        opened.declassify(NonPrivateEvent("a look"), "a look", "a look")
    read_manifest(tmp_path)
    left = {
        "no line end": whole[:-1],
        "cut": whole[:-5],
        "a line less": whole[: whole.index(b"\n") + 1],
        "empty": b"",
        "changed": whole.replace(b"a release", b"a relapse"),
    }
    ledger.write_bytes(left[how])
    with pytest.raises(StoreError, match="does not begin with") as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "ledger-damaged"


def test_a_release_without_its_ledger_is_refused(tmp_path, ledger):
    put(tmp_path, manifest_of(ReleaseKind.TOPDOWN, tmp_path))
    ledger.unlink()
    with pytest.raises(StoreError) as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "ledger-damaged"


@pytest.mark.parametrize("lines", [0, 1])
def test_a_manifest_that_knows_no_spend_in_its_ledger_is_refused(tmp_path, ledger, lines):
    """With a digest of no line, or of the first one alone, any other line could be taken away unseen."""
    begin = b"".join(ledger.read_bytes().splitlines(keepends=True)[:lines])
    stated = {"lines": lines, "sha256": hashlib.sha256(begin).hexdigest()}
    put(tmp_path, manifest_of(ReleaseKind.TOPDOWN, tmp_path) | {"ledger": stated})
    with pytest.raises(StoreError, match="does not begin with") as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "ledger-damaged"
