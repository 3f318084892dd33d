"""One strict reader of manifests: whatever stands in a folder, it gives a manifest or says what is wrong."""

import hashlib
import json
from typing import Any

import pytest

from tallyveil.errors import StoreError
from tallyveil.release.manifest import MANIFEST_FORMAT, ReleaseKind, kind_of, read_manifest
from tallyveil.release.manifest_shapes import SHAPES
from tallyveil.storage.json_files import Each, digest_of, misfit

LEDGER = b'{"kind":"declaration"}\n{"kind":"spend"}\n'
PLAN = {"name": "small", "shares": {"b": "1/2", "a": "1/2"}}


def example(shape: Any) -> Any:
    """The smallest value of a shape that has an item in every list and a key in every object."""
    if isinstance(shape, Each):
        return {"any": example(shape.shape)}
    if isinstance(shape, dict):
        return {key: example(inner) for key, inner in shape.items()}
    if isinstance(shape, list):
        return [example(shape[0])]
    kind = shape[0] if isinstance(shape, tuple) else shape
    return "a" if kind is str else kind()


def manifest_of(kind: ReleaseKind) -> dict[str, Any]:
    named = {} if kind is ReleaseKind.TOPDOWN else {"kind": kind.value}
    ledger = {"lines": 2, "sha256": hashlib.sha256(LEDGER).hexdigest()}
    manifest = example(SHAPES[kind]) | {"format": MANIFEST_FORMAT, "ledger": ledger} | named
    return manifest | ({"plan": PLAN, "plan_digest": digest_of(PLAN).hex()} if "plan" in manifest else {})


@pytest.fixture(autouse=True)
def ledger(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(LEDGER)
    return path


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


@pytest.mark.parametrize("kind", list(ReleaseKind))
def test_a_manifest_is_read_as_it_was_written(tmp_path, kind):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_of(kind)))
    assert kind_of(read_manifest(tmp_path)) is kind
    assert read_manifest(tmp_path, kind) == manifest_of(kind)


@pytest.mark.parametrize("kind", list(ReleaseKind))
def test_every_change_of_a_type_is_refused(tmp_path, kind):
    manifest = manifest_of(kind)
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
            allowed = misfit(changed, SHAPES[kind]) is None and place[0] not in ("format", "kind", "plan")
            (tmp_path / "manifest.json").write_text(json.dumps(changed))
            if allowed:  # such as a float for an int where any number may stand
                read_manifest(tmp_path, kind)
                continue
            with pytest.raises(StoreError):
                read_manifest(tmp_path, kind)


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
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_of(ReleaseKind.SUBSPACE)))
    with pytest.raises(
        StoreError, match=r"`tallyveil subspace release`.*`tallyveil run` or `tallyveil safetab run`"
    ):
        read_manifest(tmp_path, ReleaseKind.TOPDOWN, ReleaseKind.SAFETAB)


def test_a_plan_that_was_edited_is_noticed(tmp_path):
    manifest = manifest_of(ReleaseKind.TOPDOWN)
    manifest["plan"] = {**PLAN, "name": "other"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="'plan' is missing or is not what the run wrote"):
        read_manifest(tmp_path)


def test_an_empty_folder_holds_no_release(tmp_path):
    with pytest.raises(StoreError) as caught:
        read_manifest(tmp_path / "nothing")
    assert caught.value.code == "no-release"


def test_a_release_of_an_earlier_version_says_so(tmp_path):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_of(ReleaseKind.TOPDOWN) | {"format": 1}))
    with pytest.raises(StoreError, match="earlier version") as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "release-format"


@pytest.mark.parametrize(
    "left",
    [LEDGER[:-1], LEDGER[:-5], LEDGER[:24], b"", LEDGER.replace(b"spend", b"spent")],
    ids=["no line end", "cut", "a line less", "empty", "changed"],
)
def test_a_ledger_that_lost_what_the_run_wrote_is_refused(tmp_path, ledger, left):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_of(ReleaseKind.TOPDOWN)))
    ledger.write_bytes(LEDGER + b'{"kind":"declassify"}\n')
    read_manifest(tmp_path)
    ledger.write_bytes(left)
    with pytest.raises(StoreError, match="does not begin with") as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "ledger-damaged"


def test_a_release_without_its_ledger_is_refused(tmp_path, ledger):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest_of(ReleaseKind.TOPDOWN)))
    ledger.unlink()
    with pytest.raises(StoreError) as caught:
        read_manifest(tmp_path)
    assert caught.value.code == "ledger-damaged"
