"""Make a release from published measurements. No record can be reached from here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallyveil.api.arguments import AnyPath, Progress, Workers, as_path, checked
from tallyveil.api.clusters import Cluster
from tallyveil.api.opened import Opened
from tallyveil.api.released import Release, finished


@checked
def estimate(
    measurements: str | Path | Opened,
    out: AnyPath,
    *,
    estimation: str | Path | Mapping[str, Any] | None = None,
    workers: Workers | None = None,
    cluster: Cluster = None,
    observer: Progress | None = None,
) -> Release:
    """Make a release from published measurements, without the records.

    Args:
        measurements: What `measure` returned, a finished release with all its measurements, or the folder of either.
        out: Folder of the release. It does not exist, is empty, or holds an unfinished estimate of the same settings.
        estimation: TOML file with the table [estimation] of a release file, or this table as nested mappings; None for
            the settings that the measurements were planned with.
        workers, observer: As for `run`.
        cluster: As for `run`; None for threads of this machine.
    Raises:
        TallyveilError: the measurements, the settings or the folder cannot be used.
    Privacy: post-processing. It reads public files alone and spends nothing.
    """
    from tallyveil.plans.from_toml.load import estimation_from_mapping, load_estimation
    from tallyveil.postprocess.estimate import estimate_release
    from tallyveil.postprocess.measured import open_measurements
    from tallyveil.runs.executors import executors_of

    folder = Path(out)
    source = measurements.path if isinstance(measurements, Opened) else measurements
    opened = open_measurements(as_path(source, "measurements"))
    levels = None
    if isinstance(estimation, Mapping):
        levels = estimation_from_mapping(estimation, opened.plan)
    elif estimation is not None:
        levels = load_estimation(as_path(estimation, "estimation"), opened.plan)
    executors = executors_of(cluster, None, workers, observer)
    outcome = estimate_release(
        opened, folder, levels, observer=observer, workers=workers, executors=executors
    )
    return finished(outcome)
