"""What a careful forger does after an edit: every digest, every list of files and every chain is made anew.

He has a copy of a release and Tallyveil, and no key. What follows from an edited file and is easy to make, he makes.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from tallyveil.accounting.ledger.lines import NO_LINE, chained_line, line_hash
from tallyveil.files.data_package import DATA_PACKAGE, data_package
from tallyveil.files.manifest import ListedFile
from tallyveil.storage.json_files import digest_of


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def changed_json(path: Path, change: Callable[[Any], None]) -> None:
    content = read(path)
    change(content)
    write(path, content)


def changed_frame(path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change the rows of a Parquet file, and leave what it says of itself."""
    tags = {key: text for key, text in pl.read_parquet_metadata(path).items() if key.startswith("tallyveil.")}
    change(pl.read_parquet(path)).write_parquet(path, metadata=tags)


def changed_ledger(root: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the lines of a ledger, and chain them anew."""
    lines = [json.loads(line) for line in (root / "ledger.jsonl").read_bytes().splitlines()]
    for line in lines:
        line.pop("digest"), line.pop("previous")
    change(lines)
    written: list[bytes] = []
    for line in lines:
        written.append(chained_line(line, line_hash(written[-1]) if written else NO_LINE))
    (root / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in written))


def _listed(root: Path, path: str) -> dict[str, Any]:
    return {"path": path, "bytes": (root / path).stat().st_size, "sha256": digest(root / path)}


def reseal(root: Path) -> None:
    """Make every digest of a release anew, as if its files had always been those that are there."""
    manifest = read(root / "manifest.json")
    body = manifest.get("body", {})
    intervals = root / "intervals" / "_manifest.json"
    beside: list[dict[str, Any]] = []
    if intervals.is_file():
        content = read(intervals)
        beside = [_listed(root, file["path"]) for file in content["files"] if (root / file["path"]).is_file()]
        write(intervals, {**content, "files": beside})
        if isinstance(body.get("intervals"), dict) and "manifest_sha256" in body["intervals"]:
            body["intervals"]["manifest_sha256"] = digest(intervals)
    files = [_listed(root, file["path"]) for file in manifest["files"] if (root / file["path"]).is_file()]
    if isinstance(body.get("plan"), dict):
        manifest["plan_digest"] = digest_of(body["plan"]).hex()
        try:
            others = [ListedFile(**file) for file in files if file["path"] != DATA_PACKAGE]
            told = data_package(
                root,
                body["plan"],
                manifest["run"],
                manifest["warnings"],
                [*others, *(ListedFile(**file) for file in beside)],
            )
        except Exception:  # noqa: BLE001 - what he cannot make, he leaves
            pass
        else:
            listed = any(file["path"] == DATA_PACKAGE for file in manifest["files"])
            if listed and not (root / ".package-edited").exists():
                write(root / DATA_PACKAGE, told)
                files = [_listed(root, file["path"]) for file in files]
    (root / ".package-edited").unlink(missing_ok=True)
    ledger = (root / "ledger.jsonl").read_bytes()
    manifest["files"] = files
    manifest["ledger"] = {"lines": ledger.count(b"\n"), "sha256": hashlib.sha256(ledger).hexdigest()}
    content = {name: part for name, part in manifest.items() if name != "digest"}
    write(
        root / "manifest.json",
        {**content, "digest": digest_of(content).hex()},
    )


def without_page(root: Path) -> None:
    """Leave the page out, so that no edit is found by it alone; a page is no part that a release must have."""
    (root / "report.html").unlink(missing_ok=True)


def reseal_publication(root: Path) -> None:
    """Make every digest of a publication anew."""
    content = read(root / "publication.json")
    for file in content["files"]:
        if (root / file["path"]).is_file():
            file.update(_listed(root, file["path"]))
    write(root / "publication.json", content)
