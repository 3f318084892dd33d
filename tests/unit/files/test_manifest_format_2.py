"""Manifests of format 2 are read as manifests of today, and damaged ones are refused in one sentence.

The folders are made here as the writers of format 2 made them: what each product wrote, key by key.
"""

import hashlib
import json
from fractions import Fraction

import pytest

from tallyveil.accounting.events import DiscreteGaussian, Neighbours
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.errors import StoreError
from tallyveil.files.finished import ledger_record
from tallyveil.files.manifest import MANIFEST_FORMAT, ListedFile, ReleaseKind, Spent
from tallyveil.files.manifest_files import read_listed, read_manifest, write_manifest
from tallyveil.storage.json_files import digest_of

EVENT = DiscreteGaussian(Fraction(1), 1, 2)
LEDGER = Declaration("rho", Fraction(1), Neighbours.BOUNDED)
RUN = "run 7"
PLAN = {"name": "old", "budget_unit": "rho", "declared": "1", "spent": "1", "rho": "1", "delta": "1/100"}
INTERVAL = {"lower": 1.0, "upper": 1.5}
CHANGED = {"budget": "4", "epsilon": {"lower": 3.0, "upper": 3.5}}
DATA = {
    "tables/US/total/part-00000.csv": b"geocode,count\nUS,5\n",
    "tables/Block/total/part-00000.csv": b"geocode,count\n",
}
SHA256 = {path: hashlib.sha256(content).hexdigest() for path, content in DATA.items()}
FILES = [{"path": path, "bytes": len(content), "sha256": SHA256[path]} for path, content in DATA.items()]
VERSIONS = {"tallyveil": "0.9", "python": "3.11.9", "numpy": "2.1.0"}
CHECKS = [{"check": "counts are whole numbers", "passed": True}, {"check": "sums agree", "passed": True}]
STAGES = [{"stage": "checks", "seconds": 0.25, "peak_memory_mib": 120}]
SAFETAB_RUN = {
    "run": "US",
    "budget": "1",
    "delta": "1/10000000000",
    "epsilon": INTERVAL,
    "pure": None,
    "renyi": 2.0,
    "zcdp": 2.5,
    "zcdp_textbook": 3,
    "changed": CHANGED,
}


def topdown():
    """As `tallyveil run` wrote it, which named no kind."""
    exact = {
        "delta": "1/100",
        "epsilon": INTERVAL,
        "engines": ["lattice"],
        "geolevels": [{"geolevel": "US", "spent": "1", "classical_epsilon": 2.0, "epsilon": INTERVAL}],
    }
    return {
        "format": 2,
        "name": "old",
        "run": RUN,
        "protected": True,
        "warnings": [],
        "plan": PLAN,
        "plan_digest": digest_of(PLAN).hex(),
        "privacy": {
            "budget_unit": "rho",
            "declared": "1",
            "spent": "1",
            "delta": "1/100",
            "epsilon": 1.5,
            "exact": exact,
            "post_processing": "Everything else follows from the noisy answers.",
            "invariants": ["total at US"],
            "statement": "A statement.",
            "paths": [],
        },
        "event": EVENT.to_mapping(),
        "inputs": {"records_keyed_hash": "ab", "geography_sha256": "cd"},
        "sizes": {
            "records": 5,
            "geolevels": {"US": {"geounits": 1, "empty_geounits": 0, "nonzero_cells": 2}},
        },
        "solver": {
            "US": {
                "families": 1,
                "estimate": {"certified": 1},
                "rounding": {"fixed": 1},
                "rounding_widened": 0,
                "largest_residual": 0.0,
            }
        },
        "checks": CHECKS,
        "files": FILES,
        "versions": VERSIONS,
        "performance": STAGES,
    }


def safetab():
    """As `tallyveil safetab run` wrote it; `privacy.json` beside it had the guarantee."""
    return {
        "format": 2,
        "kind": "safetab",
        "run": RUN,
        "protected": True,
        "warnings": [],
        "version": "0.9",
        "plan_digest": "ef",
        "budget_unit": "rho",
        "budgets": {"US": "1", "PR": "1/2"},
        "event": EVENT.to_mapping(),
        "sizes": {"US": {"noisy_counts": 9, "groups": {"nation": 3}, "t1_rows": 3, "t2_rows": 0}},
        "checks_passed": 2,
        "files": SHA256,
        "performance": STAGES,
    }


def households():
    """As `tallyveil safetab households` wrote it."""
    guarantee = {"budget": "1", "delta": "1/10000000000", "epsilon": INTERVAL, "changed": CHANGED}
    return {**safetab(), "kind": "safetab-households", "privacy": {"US": guarantee}}


def subspace():
    """As `tallyveil subspace release` wrote it."""
    noise = {
        "structure": "lattice",
        "cells": 4,
        "dimension": 2,
        "basis": "Smith",
        "notes": ["small"],
        "sampler": "exact",
        "reason": "the lattice is small",
    }
    return {
        "format": 2,
        "kind": "integer-subspace",
        "name": "old",
        "run": RUN,
        "protected": True,
        "warnings": [],
        "plan": PLAN,
        "plan_digest": digest_of(PLAN).hex(),
        "privacy": {"statement": "A statement."},
        "event": EVENT.to_mapping(),
        "noise": noise,
        "inputs": {"table_keyed_hash": "ab"},
        "checks": CHECKS,
        "files": FILES,
        "versions": {"tallyveil": "0.9"},
        "performance": STAGES,
    }


WRITERS = {
    ReleaseKind.TOPDOWN: topdown,
    ReleaseKind.SAFETAB: safetab,
    ReleaseKind.HOUSEHOLDS: households,
    ReleaseKind.SUBSPACE: subspace,
}


def put(folder, manifest):
    """Write a manifest, whose last entry was that of the ledger."""
    ledger = ledger_record(folder)
    content = {"ledger": {"lines": ledger.lines, "sha256": ledger.sha256}}
    (folder / "manifest.json").write_text(json.dumps({**manifest, **content}))


@pytest.fixture
def folder(tmp_path):
    """A folder with the ledger and the files of the run."""
    with Ledger(tmp_path / "ledger.jsonl", LEDGER, RUN) as ledger:
        ledger.spend(EVENT, "a release", "release")
    for path, content in DATA.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "privacy.json").write_text(json.dumps([SAFETAB_RUN, {**SAFETAB_RUN, "run": "PR"}]))
    return tmp_path


@pytest.fixture(params=list(WRITERS))
def old(request, folder):
    """Kind, folder and manifest of a sound release of format 2."""
    manifest = WRITERS[request.param]()
    put(folder, manifest)
    return request.param, folder, manifest


def test_a_sound_release_says_the_same_today(old):
    kind, folder, written = old
    found = read_manifest(folder, kind)
    assert found.kind is kind
    assert found.run == RUN
    assert found.protected
    assert found.spent == Spent("rho", Fraction(1), Fraction(1))
    assert found.files == tuple(ListedFile(one["path"], one["bytes"], one["sha256"]) for one in FILES)
    assert found.tallyveil == ("0.9",)
    assert "tallyveil" not in found.versions
    assert len(found.checks) == 2
    assert found.event == written["event"]
    assert found.declassified == ()
    assert found.ledger == ledger_record(folder)
    for name in ("name", "plan", "inputs", "sizes", "solver", "noise"):
        assert found.body.get(name) == written.get(name)


def test_what_was_read_is_written_and_read_as_the_format_of_today(old):
    """A look at the true counts marks an old release; from then on its manifest is one of today."""
    kind, folder, _ = old
    found = read_manifest(folder)
    write_manifest(folder, found)
    assert json.loads((folder / "manifest.json").read_text())["format"] == MANIFEST_FORMAT
    assert read_manifest(folder, kind) == found


def test_safetab_guarantees_are_by_run(folder):
    put(folder, safetab())
    assert set(read_manifest(folder).privacy) == {"US", "PR"}
    assert read_manifest(folder).privacy["US"] == SAFETAB_RUN
    put(folder, households())
    assert read_manifest(folder).privacy == households()["privacy"]


@pytest.mark.parametrize(
    "content", ["{", "5", "null", '{"run": 1}', '["US"]', "[{}]", '[{"run": "US"}]', '[{"run": 5}]']
)
def test_a_damaged_file_of_guarantees_is_refused(folder, content):
    put(folder, safetab())
    (folder / "privacy.json").write_text(content)
    if content in {"5", "null", '{"run": 1}', '["US"]', "[{}]"}:  # no run is named, and none is invented
        assert read_manifest(folder).privacy == {}
        return
    with pytest.raises(StoreError) as caught:
        read_manifest(folder)
    assert caught.value.code in {"release-damaged", "release-unreadable"}


def test_a_look_that_format_2_recorded_is_kept(old):
    kind, folder, written = old
    look = {"line": 2, "description": "evaluation", "reason": "a study"}
    put(folder, written | {"declassified": [look], "warnings": ["NOT PRIVATE"]})
    found = read_manifest(folder, kind)
    assert found.declassified == (look,)
    assert found.warnings == ("NOT PRIVATE",)


def test_a_file_that_is_gone_has_no_size(folder):
    """Parts of a release may be published alone."""
    (folder / "tables/US/total/part-00000.csv").unlink()
    (folder / "tables/Block/total/part-00000.csv").unlink()
    put(folder, safetab())
    assert [file.bytes for file in read_manifest(folder).files] == [0, 0]
    assert read_manifest(folder).digests == SHA256


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a//b", "", ".", "a/../../b", "nul\0"])
def test_a_path_that_leads_out_of_the_folder_is_refused(folder, path):
    put(folder, safetab() | {"files": {path: "ab"}})
    with pytest.raises(StoreError) as caught:
        read_manifest(folder)
    assert caught.value.code == "path-outside"


def test_a_file_that_format_2_did_not_list_is_read_and_a_changed_one_refused(folder):
    put(folder, safetab() | {"files": {"expected.json": "ab"}})
    manifest = read_manifest(folder)
    for name in ("plan.json", "expected.json"):
        (folder / name).write_text('{"a": 1}')
    assert read_listed(folder, manifest, "plan.json", dict[str, int]) == {"a": 1}
    with pytest.raises(StoreError) as caught:
        read_listed(folder, manifest, "expected.json", dict[str, int])
    assert caught.value.code == "release-damaged"


def places(value, at=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in [(*at, key), *places(item, (*at, key))]]


def changed(manifest, place, value):
    """A copy with another value at one place, or without it."""
    copy = json.loads(json.dumps(manifest))
    part = copy
    for key in place[:-1]:
        part = part[key]
    if value is ...:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    return copy


def read_or_refused(folder):
    """The manifest, or None where a StoreError refuses it; any other error fails the test."""
    try:
        return read_manifest(folder)
    except StoreError:
        return None


STATED = ("run", "protected", "event", "spent", "ledger", "plan_digest")


def test_no_change_of_one_part_breaks_the_reader(old):
    """Whatever stands at a place, the reader refuses it or gives a manifest with the same spend, event and run."""
    _, folder, written = old
    sound = read_manifest(folder).to_mapping()
    values = (..., None, [], {}, "", "1/0", -1, 0.5, True, [[]], {"x": []})
    for number, place in enumerate(places(written)):
        for value in values[number % 3 :: 3]:
            put(folder, changed(written, place, value))
            found = read_or_refused(folder)
            if found is not None:
                now = found.to_mapping()
                edited = place[0] == "plan_digest"  # the plan of SafeTab is in a file of its own
                assert all(now[name] == sound[name] for name in STATED if not edited), (place, value)


def test_the_keys_of_another_product_are_not_read(old):
    kind, folder, written = old
    foreign = {name: value for writer in WRITERS.values() for name, value in writer().items()}
    for name in set(foreign) - set(written):
        for value in (5, None, [], {}, "a", [5], {"x": 5}, -1):
            put(folder, written | {name: value})
            found = read_or_refused(folder)
            if found is not None:
                assert found.kind is kind
                assert found.spent == Spent("rho", Fraction(1), Fraction(1))
                assert found.tallyveil == ("0.9",)


@pytest.mark.parametrize("number", [-1, 10**6, 10**15, 10**40])
def test_a_number_of_checks_that_no_run_made_is_refused(folder, number):
    put(folder, safetab() | {"checks_passed": number})
    with pytest.raises(StoreError, match="'checks_passed'") as caught:
        read_manifest(folder)
    assert caught.value.code == "release-damaged"


@pytest.mark.parametrize("kind", [ReleaseKind.TOPDOWN, ReleaseKind.SUBSPACE])
def test_a_check_that_did_not_pass_is_damage(folder, kind):
    """A run sealed its manifest only after every check had passed; format 3 says so by naming the check."""
    put(folder, WRITERS[kind]() | {"checks": [*CHECKS, {"check": "sums agree", "passed": False}]})
    with pytest.raises(StoreError, match=r"'checks\[2\]\.passed'") as caught:
        read_manifest(folder)
    assert caught.value.code == "release-damaged"


def test_an_edited_plan_is_noticed(folder):
    put(folder, topdown() | {"plan": {**PLAN, "name": "other"}})
    with pytest.raises(StoreError, match=r"'body.plan' is missing or is not what the run wrote"):
        read_manifest(folder)


@pytest.mark.parametrize("kind", ["topdown-measurements", "other", "", 5, None])
def test_a_kind_that_format_2_did_not_have_is_refused(folder, kind):
    put(folder, topdown() | {"kind": kind})
    with pytest.raises(StoreError):
        read_manifest(folder)


def test_a_budget_that_is_no_number_is_refused(folder):
    for budgets in ({"US": "1/0"}, {"US": "one"}, {"US": "1", "PR": "-"}):
        put(folder, safetab() | {"budgets": budgets})
        with pytest.raises(StoreError, match="'budgets"):
            read_manifest(folder)


def test_another_budget_than_the_ledger_shows_is_refused(folder):
    """The costliest of SafeTab's runs is what the ledger shows."""
    for budgets in ({}, {"US": "1/2", "PR": "1/2"}, {"US": "1", "PR": "2"}):
        put(folder, safetab() | {"budgets": budgets})
        with pytest.raises(StoreError) as caught:
            read_manifest(folder)
        assert caught.value.code == "release-damaged"
