"""Readers of what a run keeps for itself, and of what the machines of a cluster send each other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from release_targets import released
from targets import Builder, Target, at

from tallyveil.errors import TallyveilError
from tallyveil.noise.key import insecure_key
from tallyveil.products.dhc.run.run import read_state
from tallyveil.runs.cluster.channel import DriverEnd, WorkerEnd
from tallyveil.runs.folder import RunFolder
from tallyveil.runs.key_file import RunSecrets, _mac_of, key_file, read_key_file
from tallyveil.runs.status import run_status
from tallyveil.storage.archives import read_archive, write_archive

TESTS = Path(__file__).parents[1]
KEY, PLAN, BINDING = insecure_key("fuzz"), bytes(range(32)), bytes(32)
TOKEN = b"a token of a cluster that is long enough"


def _key_file(root: Path) -> Target:
    """The key of a run."""
    valid = json.dumps(key_file(RunSecrets(KEY, BINDING, PLAN, False))).encode()

    def mended(tree: Any) -> Any:
        """With the keyed hash of what it says."""
        if isinstance(tree, dict) and "mac" in tree:
            return tree | {
                "mac": _mac_of(KEY, {name: value for name, value in tree.items() if name != "mac"})
            }
        return tree

    def read(content: bytes) -> object:
        return read_key_file(content, "out", BINDING, PLAN, KEY, "Nothing was spent.")[1]

    return Target(valid, read, "json", mended=mended)


def _checkpoint(root: Path) -> Target:
    """Archives of chunks; one that is accepted is written and read again."""
    root.mkdir()
    path, again = root / "chunk.zip", root / "again.zip"
    arrays = {"counts": np.arange(12, dtype=np.int64).reshape(3, 4), "status": np.zeros(3, np.int8)}
    write_archive(path, {"families": 3, "names": ["a", "b"]}, arrays)

    def read() -> object:
        found = read_archive(path)
        write_archive(again, found.record, found.arrays)
        assert read_archive(again).record == found.record, (
            "an archive that was read is written as another one"
        )
        return found.record

    return Target(path.read_bytes(), at(path, read), "bytes")


def _programme(root: Path) -> Target:
    """What an unfinished programme keeps."""
    folder = root / "out"
    (folder / "private").mkdir(parents=True, mode=0o700)
    path = folder / "private" / "programme.json"
    kept = {"format": 1, "key": KEY.hex(), "test_key": None, "begun": {"first": "ab" * 32}}
    kept["waiting"] = {"second": {"plan": "cd" * 32, "inputs": "ef" * 32}}

    def read(content: bytes) -> object:
        path.write_bytes(content)
        path.chmod(0o600)
        with RunFolder(folder) as opened:
            found = read_state(opened)
        return None if found is None else found.waiting

    return Target(json.dumps(kept).encode(), read, "json")


def _status(root: Path, name: str, form: str) -> Target:
    """What `status` reads of a folder, which may be a stranger's."""
    out = released(root)
    private = out / "private"
    private.mkdir(mode=0o700)
    progress = {
        "format": 1,
        "process": 1,
        "stages": [],
        "stage": None,
        "written": "2026-11-23T20:00:00+00:00",
    }
    (private / "progress.json").write_text(json.dumps(progress))
    path = out / name
    return Target(path.read_bytes(), at(path, lambda: run_status(out).state), form)


def _channel(root: Path) -> Target:
    """Messages between driver and worker process: keys, proofs and sealed secrets, each as text."""
    driver, worker = DriverEnd(TOKEN), WorkerEnd(TOKEN)
    confirmation = worker.confirmation(driver.public)
    sealed = driver.sealed(worker.public, confirmation, b"a secret")
    valid = {"driver": driver.public, "worker": worker.public, "confirmation": confirmation, "sealed": sealed}

    def read(content: bytes) -> object:
        try:
            told = json.loads(content)
        except (ValueError, RecursionError):
            return None
        if not isinstance(told, dict) or not all(isinstance(told.get(name), str) for name in valid):
            return None
        changed = {name for name in valid if told[name] != valid[name]}
        driver_took = _took(lambda: driver.require_confirmed(told["worker"], told["confirmation"]))
        worker_took = _took(lambda: worker.opened(told["driver"], told["sealed"]))
        # Letters of a hexadecimal number may be large or small, and spaces may stand between its bytes.
        same = {name for name in changed if _bytes(told[name]) == _bytes(valid[name])}
        assert not driver_took or {"worker", "confirmation"}.isdisjoint(changed - same), (
            "a wrong proof is taken"
        )
        assert not worker_took or {"driver", "sealed"}.isdisjoint(changed - same), "a wrong message is taken"
        return None

    return Target(json.dumps(valid).encode(), read, "json")


def _took(act: Any) -> bool:
    try:
        act()
    except TallyveilError:
        return False
    return True


def _bytes(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


RUN_TARGETS: dict[str, Builder] = {
    "key-file": _key_file,
    "checkpoint": _checkpoint,
    "programme-kept": _programme,
    "status-progress": lambda root: _status(root, "private/progress.json", "json"),
    "status-ledger": lambda root: _status(root, "ledger.jsonl", "lines"),
    "cluster-channel": _channel,
}
