"""Consistent tables from those of a finished SafeTab run: post-processing, which opens no record and costs nothing."""

from pathlib import Path
from typing import Literal

from tallyveil.errors import ConfigError
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest_files import read_manifest
from tallyveil.safetab.consistent import consistent_alone, consistent_states
from tallyveil.safetab.iterations import read_iterations
from tallyveil.storage.outputs import claim_folder
from tallyveil.storage.paths import real
from tallyveil.storage.published import published_tags, read_published
from tallyveil.storage.write import write_parquet

_PREFIX = "tallyveil."


def write_consistent(params: Path, run: Path, out: Path, rule: Literal["states", "alone"]) -> list[Path]:
    """Write T1 with consistent estimates beside the others.

    Args:
        params: Parameter folder of the run; only its iteration files are read.
        run: Folder of the finished run.
        out: Folder to write to.
        rule: "states": the nation is the sum of its states (US only); "alone": who is in an iteration alone is in it
            in combination.
    Returns:
        The files written, named as the run's.
    Raises:
        ConfigError: the folder to write to is the run's.
        StoreError: the run is not finished, or a file cannot be read or written.
    """
    manifest = read_manifest(run, ReleaseKind.SAFETAB)
    if real(out) == real(run):
        raise ConfigError(
            f"--out is {out}, the folder of the run, whose tables it would replace. Choose another folder.",
            code="bad-flag",
        )
    files = read_iterations(params)
    claim_folder(out, "safetab consistent")
    stems = [name.lower() for name in manifest.body["sizes"]]
    written = []
    for stem in stems if rule == "alone" else [stem for stem in stems if stem == "us"]:
        path, target = run / f"t1-{stem}.parquet", out / f"t1-{stem}.parquet"
        frame, metadata = read_published(path), published_tags(path)
        tags = {k.removeprefix(_PREFIX): v for k, v in metadata.items() if k.startswith(_PREFIX)}
        found = consistent_states(frame) if rule == "states" else consistent_alone(frame, files)
        write_parquet(target, found, {**tags, "consistent": rule})
        written.append(target)
    return written
