"""Make consistent tables from those of a finished SafeTab run. This is post-processing: no record is read."""

from pathlib import Path
from typing import Literal

from tallyveil.errors import ConfigError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_listed_table, read_manifest
from tallyveil.products.safetab.public.consistent import consistent_alone, consistent_states
from tallyveil.products.safetab.public.iterations import read_iterations
from tallyveil.storage.outputs import own_folder
from tallyveil.storage.paths import real
from tallyveil.storage.read import published_tags
from tallyveil.storage.write import write_parquet

_PREFIX = "tallyveil."


def write_consistent(params: Path, run: Path, out: Path, rule: Literal["states", "alone"]) -> list[Path]:
    """Write T1 with consistent estimates next to the published ones.

    Args:
        params: Parameter folder of the run. Only its iteration files are read.
        run: Folder of the finished run.
        out: Folder to write to.
        rule: "states": the count of the nation is the sum of its states (US only). "alone": the count of an iteration
            alone is at most its count in combination.
    Returns:
        The written files, which have the names of the run's files.
    Raises:
        ConfigError: `out` is the folder of the run.
        StoreError: the run is not finished, or a file cannot be read or written.
    """
    manifest = read_manifest(run, ReleaseKind.SAFETAB)
    # Compared as real paths, because a link to the run's folder would also let its tables be replaced.
    if real(out) == real(run):
        raise ConfigError(
            f"--out is {out}, which is the folder of the run: the tables of the run would be replaced. Choose "
            "another folder.",
            code="bad-flag",
        )
    files = read_iterations(params)
    # The manifest says which runs there are. "states" needs a nation, which Puerto Rico's run does not have.
    stems = [name.lower() for name in manifest.body["sizes"]]
    written = []
    with own_folder(out, "safetab consistent"):
        for stem in stems if rule == "alone" else [stem for stem in stems if stem == "us"]:
            path, target = run / f"t1-{stem}.parquet", out / f"t1-{stem}.parquet"
            # Checked against the manifest's SHA-256: consistency of a changed table would mean nothing.
            frame, metadata = read_listed_table(run, manifest, path.name), published_tags(path)
            # The guarantee of the run stays with its numbers: this is post-processing and costs nothing.
            tags = {k.removeprefix(_PREFIX): v for k, v in metadata.items() if k.startswith(_PREFIX)}
            estimates = consistent_states(frame) if rule == "states" else consistent_alone(frame, files)
            write_parquet(target, estimates, {**tags, "consistent": rule})
            written.append(target)
    return written
