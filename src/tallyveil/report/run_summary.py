"""How the release was made: checks, families solved, time, versions, files."""

from dataclasses import dataclass

from tallyveil.estimation.solution import EstimateStatus, RoundingMethod
from tallyveil.estimation.tiles import TileStatus
from tallyveil.report.release_files import ReleaseFiles
from tallyveil.report.wording import duration, file_size, grouped, name_title, scientific
from tallyveil.storage.json_files import JsonObject

_STATUS_TITLES: dict[EstimateStatus | TileStatus, str] = {
    EstimateStatus.CERTIFIED: "certified",
    EstimateStatus.CERTIFIED_BY_MORE_SWEEPS: "certified, more sweeps",
    EstimateStatus.CERTIFIED_FROM_INTERIOR_POINT: "certified, interior point",
    EstimateStatus.INTERIOR_POINT: "interior point",
    EstimateStatus.COPIED: "copied",
    EstimateStatus.EMPTY: "empty",
    TileStatus.SETTLED: "nothing to estimate",
    TileStatus.LIFTED: "split with their finest geounits",
    TileStatus.CERTIFIED: "tables, certified",
    TileStatus.CERTIFIED_BY_RESTART: "tables, certified after a restart",
    TileStatus.CERTIFIED_BY_MORE_STEPS: "tables, certified by more steps",
    TileStatus.APPROXIMATE: "tables, approximate",
}
_ROUNDING_TITLES = {
    RoundingMethod.FIXED: "nothing to round",
    RoundingMethod.NETWORK_FLOW: "network flow",
    RoundingMethod.LINEAR_PROGRAM: "linear program",
    RoundingMethod.INTEGER_PROGRAM: "integer program",
}


@dataclass(frozen=True, slots=True)
class SolverTable:
    """How the families of each geolevel were solved.

    Attributes:
        statuses, roundings: Column titles of the outcomes that occurred.
        rows: Geolevel; families; families by status; by rounding; families widened; largest residual.
        meanings: Title of each outcome that occurred, and what to do about it.
    """

    statuses: tuple[str, ...]
    roundings: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...], str, str], ...]
    meanings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the run: its name, its time, its part of the whole time, its largest memory."""

    name: str
    time: str
    part: float
    memory: str


@dataclass(frozen=True, slots=True)
class FileLine:
    """One published file."""

    path: str
    size: str
    sha256: str


def solver_table(files: ReleaseFiles) -> SolverTable:
    """Outcomes by geolevel; those that never occurred are left out."""
    records: JsonObject = files.manifest.body["solver"]
    levels = [level for level in files.geolevels if level in records]
    statuses = [
        item
        for item in (*EstimateStatus, *TileStatus)
        if any(records[x]["estimate"].get(item.value) for x in levels)
    ]
    roundings = [
        item for item in RoundingMethod if any(records[x]["rounding"].get(item.value) for x in levels)
    ]
    rows = []
    for level in levels:
        record = records[level]
        rows.append(
            (
                name_title(level),
                grouped(record["families"]),
                tuple(grouped(record["estimate"].get(item.value, 0)) for item in statuses),
                tuple(grouped(record["rounding"].get(item.value, 0)) for item in roundings),
                grouped(record["rounding_widened"]),
                scientific(record["largest_residual"]),
            )
        )
    return SolverTable(
        tuple(_STATUS_TITLES[item] for item in statuses),
        tuple(_ROUNDING_TITLES[item] for item in roundings),
        tuple(rows),
        (
            *((_STATUS_TITLES[item], item.remedy) for item in statuses),
            *((_ROUNDING_TITLES[item], item.remedy) for item in roundings),
        ),
    )


def stages(files: ReleaseFiles) -> tuple[Stage, ...]:
    """Stages in the order they ran."""
    timed = files.manifest.performance
    longest = max((stage.seconds for stage in timed), default=0.0) or 1.0
    return tuple(
        Stage(
            stage.stage.replace("_", " "),
            duration(stage.seconds),
            stage.seconds / longest,
            f"{grouped(stage.peak_memory_mib)} MiB",
        )
        for stage in timed
    )


def total_time(files: ReleaseFiles) -> str:
    """Time of all stages together."""
    return duration(sum(stage.seconds for stage in files.manifest.performance))


def file_lines(files: ReleaseFiles) -> tuple[FileLine, ...]:
    """Published files in the manifest's order."""
    return tuple(FileLine(file.path, file_size(file.bytes), file.sha256) for file in files.manifest.files)
