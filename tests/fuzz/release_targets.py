"""Readers of what a release has published: manifest, plan, ledger, geography, counts, measurements and intervals."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from loading import module_of
from targets import Builder, Target, at

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.joint import read_joint
from tallyveil.api.released import open_folder
from tallyveil.explore.opened import open_for_explorer
from tallyveil.files.checks import read_part
from tallyveil.files.geography import read_areas, read_hierarchies
from tallyveil.files.histograms import read_histogram, read_records
from tallyveil.files.intervals import made_intervals, read_interval_table
from tallyveil.geography.spine import Spine
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.noise.key import insecure_key
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.intervals.model import open_release
from tallyveil.postprocess.measured import read_constraints
from tallyveil.products.dhc.public.programme_file import stated_programme
from tallyveil.products.topdown.run.run import run_release
from tallyveil.report.release_files import read_release_files
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import digest_of, read_json_object

TESTS = Path(__file__).parents[1]


def released(root: Path) -> Path:
    """A small finished release with measurements and intervals."""
    path = module_of(TESTS / "conftest.py").write_small_inputs(root / "inputs")
    path.write_text(path.read_text() + 'intervals = "0.95"\n')
    run_release(load_plan(path), root / "out", test_key=insecure_key("fuzz"), workers=1)
    shutil.rmtree(root / "inputs")
    return root / "out"


def _file(
    root: Path, name: str, form: str, read: Callable[[Path], Any], mended: Callable[[Any], Any] | None = None
) -> Target:
    """A file of a finished release, by its name or the begin of it."""
    out = released(root)
    path = next(
        path
        for path in sorted(out.rglob("*"))
        if path.relative_to(out).as_posix().startswith(name) and path.is_file()
    )
    return Target(path.read_bytes(), at(path, lambda: read(out)), form, mended=mended or (lambda tree: tree))


def _opened(out: Path) -> object:
    """Everything that opens a release by its manifest."""
    found = open_folder(out)
    read_release_files(out)
    open_release(out)
    open_for_explorer(out, None)
    return found.manifest.digests


def _manifest_again(tree: Any) -> Any:
    """A manifest with the digest of what it says."""
    if isinstance(tree, dict) and "digest" in tree:
        kept = {name: value for name, value in tree.items() if name != "digest"}
        return tree | {"digest": digest_of(kept).hex()}
    return tree


def _programme_again(tree: Any) -> Any:
    if isinstance(tree, dict) and "digest" in tree:
        return tree | {"digest": digest_of({k: v for k, v in tree.items() if k != "digest"}).hex()}
    return tree


def chained(lines: list[Any]) -> list[Any]:
    """Lines of a ledger with the digests that they have by what they say; see `accounting.ledger.lines`."""
    found, previous = [], "0" * 64
    for line in lines:
        if not isinstance(line, dict):
            found.append(line)
            continue
        body = {key: value for key, value in line.items() if key not in ("previous", "digest")}
        body["previous"] = previous
        text = json.dumps(body, separators=(",", ":"))
        body["digest"] = hashlib.sha256(text.encode()).hexdigest()
        previous = hashlib.sha256(json.dumps(body, separators=(",", ":")).encode()).hexdigest()
        found.append(body)
    return found


def _ledger(root: Path) -> Target:
    """Ledgers; several of one folder, too."""
    root.mkdir()
    path = root / "ledger.jsonl"
    valid = (released(root / "made") / "ledger.jsonl").read_bytes()

    def read() -> object:
        found = read_ledger(path)
        read_joint([path])
        return found

    return Target(valid, at(path, read), "lines", mended=chained)


def _programme(root: Path) -> Target:
    """`programme.json` of a finished programme."""
    soak = module_of(TESTS / "soak" / "kills.py")
    soak.write_programme(module_of(TESTS / "conftest.py").write_small_inputs(root / "inputs"))
    soak.make_programme(root / "inputs", root / "out", workers=1)
    path = root / "out" / "programme.json"
    return Target(
        path.read_bytes(), at(path, lambda: stated_programme(root / "out")), "json", mended=_programme_again
    )


def _parts(out: Path) -> tuple[Schema, Spine]:
    opened = open_release(out)
    return schema_from_mapping(opened.plan["schema"]), opened.spine


def _histogram(out: Path) -> object:
    return read_histogram(out, "Town", *_parts(out)).counts.tolist()


def _microdata(out: Path) -> object:
    path = next((out / "microdata").glob("*.parquet"))
    return sum(len(cells) for _, cells in read_records(path, *_parts(out)))


def _table(out: Path) -> object:
    path = next((out / "tables" / "geolevel=Town" / "query=home").glob("*.parquet"))
    return read_part(path, _parts(out)[0].query("home")).height


def _measurements(out: Path) -> object:
    """One family's noisy answers; the digests of the files are not asked for."""
    spine = open_release(out).spine
    stored = StoredMeasurements(out, spine)
    return stored.measure("Town", "grown", 0, spine.n_geounits(1), np.arange(2)).values.tolist()


def _constraints(out: Path) -> object:
    opened, (schema, _) = open_release(out), _parts(out)
    return len(read_constraints(out, opened.plan, schema, opened.hierarchies))


def _geography(out: Path) -> object:
    spine = read_hierarchies(out).spine
    read_areas(out, spine)
    return [list(codes.text) for codes in spine.geocodes]


def _plan(out: Path) -> object:
    path = out / "plan.json"
    stated = stated_plan(path, read_json_object(path, "Restore it."))
    return stated.tables


def _intervals_manifest(out: Path) -> object:
    made = made_intervals(out, open_release(out).manifest.run)
    open_for_explorer(out, None)
    return made


def _interval_table(out: Path) -> object:
    return read_interval_table(out, "Town", "home").collect().height


RELEASE_TARGETS: dict[str, Builder] = {
    "manifest": lambda root: _file(root, "manifest.json", "json", _opened, _manifest_again),
    "plan-json": lambda root: _file(root, "plan.json", "json", _plan),
    "ledger": _ledger,
    "programme-json": _programme,
    "geography-published": lambda root: _file(root, "geography.parquet", "parquet", _geography),
    "histogram": lambda root: _file(root, "histogram/Town", "parquet", _histogram),
    "microdata": lambda root: _file(root, "microdata/", "parquet", _microdata),
    "table-published": lambda root: _file(root, "tables/geolevel=Town/query=home", "parquet", _table),
    "measurements": lambda root: _file(root, "measurements/Town/grown", "parquet", _measurements),
    "bounds-published": lambda root: _file(root, "bounds/", "parquet", _constraints),
    "invariants-published": lambda root: _file(root, "invariants/", "parquet", _constraints),
    "intervals-manifest": lambda root: _file(root, "intervals/_manifest", "json", _intervals_manifest),
    "interval-table": lambda root: _file(
        root, "intervals/geolevel=Town/query=home", "parquet", _interval_table
    ),
}
