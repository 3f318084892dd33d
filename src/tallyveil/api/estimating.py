"""Make a release from published measurements. No record can be reached from here."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.api.given import observer_given, path_given, where_given, workers_given
from tallyveil.api.opened import Opened
from tallyveil.api.released import Release, finished

if TYPE_CHECKING:
    from tallyveil.runs.executors import Where
    from tallyveil.runs.observer import Observer


def estimate(
    measurements: str | Path | Opened,
    out: str | Path,
    *,
    estimation: str | Path | Mapping[str, Any] | None = None,
    workers: int | None = None,
    cluster: "Where" = None,
    observer: "Observer | None" = None,
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

    threads, told, folder = workers_given(workers), observer_given(observer), path_given(out, "out")
    given = measurements.path if isinstance(measurements, Opened) else measurements
    opened = open_measurements(path_given(given, "measurements"))
    levels, drawn = None, bool(opened.terms.subspace)
    if isinstance(estimation, Mapping):
        levels = estimation_from_mapping(estimation, opened.plan, drawn=drawn)
    elif estimation is not None:
        levels = load_estimation(path_given(estimation, "estimation"), opened.plan, drawn=drawn)
    executors = executors_of(where_given(cluster), None, threads, folder)
    outcome = estimate_release(opened, folder, levels, observer=told, workers=threads, executors=executors)
    return finished(outcome)
