"""How near `tallyveil plan` is to the time and the memory of a run.

    python benchmarks/predictions.py [--only NAME,...] [--large] [--stages] [--keep FOLDER] [--json FILE]

Each shape of release has made-up or public inputs. `tallyveil plan` predicts what a run of it needs, from the number of
records and the public geography; `tallyveil run` then makes the release, in a process of its own, on two threads, with
kernels that were compiled before. A prediction is right if it is within a factor of 1.5 of what was measured, in
seconds and in memory, and if it says no less disk space than the release takes.

- memory: the largest resident memory of the process, as the system counted it when the process ended.
- disk: the bytes of the release folder, with what is confidential in it.
- seconds: what the run would take on two idle cores. Other work on this machine changes this number little, since it
  is estimated from processor time. Every tenth of a second, it is read how much processor time each thread has used
  since the last reading. Two idle cores would have needed as long as the thread that used most, and at least half of
  what all threads used together; the larger of the two is added up. So the work of one thread counts in full, and what
  two threads do side by side counts once. Waiting for the disk is left out. All processor time and the seconds by the
  clock are shown, too.

With `--stages`, the seconds of every stage are shown beside those predicted.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import headline

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
SHARED = HERE.parents[1] / "shared" / "data"
COUNTS = SHARED / "ri_2010_counts.parquet"
UK_LIKE = SHARED / "uk_like" / "release.toml"
COMMAND = (sys.executable, "-c", "from tallyveil.cli.start import main; main()")
FACTOR = 1.5
TICK = 0.1
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """A release whose run is predicted.

    Attributes:
        name: As the table shows it.
        make: Arguments of the command that makes the inputs, where OUT is their folder; none: they are there.
        release: The release file or programme in this folder; it may write one.
        records: The file of records, relative to the release file, and its column of counts if it has one.
        needs: File without which it is left out.
        large: Whether it is left out without `--large`.
    """

    name: str
    make: tuple[str, ...]
    release: Callable[[Path], Path]
    records: tuple[str, str | None]
    needs: Path | None = None
    large: bool = False


def file(name: str | Path) -> Callable[[Path], Path]:
    """A release file that is there, relative to the folder or not."""
    return lambda folder: folder / name


def edited(file_name: str, name: str, change: Callable[[str], str]) -> Callable[[Path], Path]:
    """A release file whose text is changed, under another name."""

    def write(folder: Path) -> Path:
        path = folder / name
        path.write_text(change((folder / file_name).read_text()))
        return path

    return write


def with_tree(text: str) -> str:
    """The release with values of the tree."""
    return f'{text}\n[estimation]\nvalues = "tree"\n'


def with_tree_intervals(text: str) -> str:
    """The release with values of the tree, and with intervals."""
    return with_tree(text).replace("[outputs]", '[outputs]\nintervals = "0.95"')


def with_small(text: str) -> str:
    """The release with the noisy answers of its small queries, and intervals from them."""
    return text.replace('measurements = "none"', 'measurements = "small"\nintervals = "0.95"')


def programme(name: str, **files: str) -> Callable[[Path], Path]:
    """A programme of some of the releases in a folder, so that each finds the one it agrees with.

    Args:
        name: Of the programme.
        files: The file of each release.
    """

    def write(folder: Path) -> Path:
        releases = "".join(
            f'[[releases]]\nname = "{of.replace("_", "-")}"\nfile = "{path}"\n' for of, path in files.items()
        )
        path = folder / f"{name}.toml"
        path.write_text(f'[programme]\nname = "{name}"\n{releases}')
        return path

    return write


def small_units(folder: Path) -> Path:
    """The units of a folder with small answers kept, after the housing units that they agree with."""
    edited("dhc-units.toml", "small-units.toml", with_small)(folder)
    return programme("programme-small", h1="h1.toml", dhc_units="small-units.toml")(folder)


def synthetic(*words: object) -> tuple[str, ...]:
    """Arguments that make up a population of one state."""
    return ("synth", *(str(word) for word in words), "--states", "1", "--out", "OUT")


REDISTRICTING = synthetic("--blocks", 25_000, "--people", 1_000_000)
HOUSEHOLDS = ("synth", "--schema", "dhc", "--like", str(COUNTS), "--out", "OUT")
ONE = file("release.toml")
DHC_PERSONS = programme(
    "programme-persons", redistricting="redistricting.toml", dhc_persons="dhc-persons.toml"
)
DHC_UNITS = programme("programme-units", h1="h1.toml", dhc_units="dhc-units.toml")
COUNTED, PERSONS, UNITS = ("records.parquet", "count"), ("persons.parquet", None), ("units.parquet", None)
TREE = edited("release.toml", "tree.toml", with_tree)
TREE_INTERVALS = edited("release.toml", "tree-intervals.toml", with_tree_intervals)
RHODE_ISLAND = EXAMPLES / "rhode_island" / "release.toml"
SHAPES = (
    Shape("tiny: 20 blocks", synthetic("--blocks", 20, "--people", 500), ONE, COUNTED),
    Shape("demo", ("demo", "--out", "OUT"), file("population/release.toml"), COUNTED),
    Shape("Rhode Island", (), file(RHODE_ISLAND), (str(COUNTS), "count"), COUNTS),
    Shape("684 cells, not measured", (), file(UK_LIKE), ("people.parquet", "count"), UK_LIKE),
    Shape("redistricting", REDISTRICTING, ONE, COUNTED),
    Shape("values of the tree", REDISTRICTING, TREE, COUNTED),
    Shape("values of the tree, intervals", REDISTRICTING, TREE_INTERVALS, COUNTED),
    Shape("DHC persons", HOUSEHOLDS, DHC_PERSONS, PERSONS, COUNTS),
    Shape("DHC units", HOUSEHOLDS, DHC_UNITS, UNITS, COUNTS),
    Shape("DHC units, small answers kept", HOUSEHOLDS, small_units, UNITS, COUNTS),
    Shape(
        "DHC programme, lift passes",
        synthetic("--schema", "dhc", "--agree", "--sizes", "tract", "--blocks", 8_000),
        file("programme.toml"),
        PERSONS,
    ),
    Shape(
        "large state: 421,545 blocks", synthetic("--blocks", 421_545, "--people", 12_700_000), ONE, COUNTED
    ),
    Shape(
        "large DHC persons: 100,000 blocks",
        synthetic("--schema", "dhc", "--blocks", 100_000),
        DHC_PERSONS,
        PERSONS,
        large=True,
    ),
)
"""The releases of the DHC agree with an earlier release, so each of them is a programme of two."""

FIRST = Shape(
    "compiles the kernels that `tallyveil warm-up` does not",
    synthetic("--schema", "dhc", "--agree", "--sizes", "tract", "--blocks", 100),
    file("programme.toml"),
    PERSONS,
)


class Meter:
    """Reads the processor time of each thread, and adds up what a stage would take on two idle cores."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.stage = "start and end"
        self._known: dict[str, float] = {}
        self._lock = threading.Lock()

    def read(self) -> None:
        """Count what was done since the last reading to the stage under way."""
        with self._lock:
            done = []
            for thread in Path("/proc/self/task").iterdir():
                try:
                    nanoseconds = int((thread / "schedstat").read_text().split()[0])
                except OSError:  # the thread has ended
                    continue
                # A number below the last one belongs to a new thread with the same name.
                before = self._known.get(thread.name, 0)
                done.append(nanoseconds - (before if before <= nanoseconds else 0))
                self._known[thread.name] = nanoseconds
            spent = max(*done, sum(done) / 2) / 1e9
            self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + spent

    def watch(self) -> None:
        """Read again and again."""
        while True:
            time.sleep(TICK)
            self.read()

    def staged(self, stage: Callable[..., Any]) -> Callable[..., Any]:
        """A stopwatch's `stage` that tells this meter, too."""

        @contextmanager
        def metered(stopwatch: Any, name: str, total: int = 1) -> Iterator[None]:
            self.read()
            outer, self.stage = self.stage, name
            with stage(stopwatch, name, total):
                yield
            self.read()
            self.stage = outer

        return metered


def inside(report: Path, words: list[str]) -> None:
    """Run one command in this process, and write the seconds of its stages."""
    meter = Meter()
    threading.Thread(target=meter.watch, daemon=True).start()
    from tallyveil.cli.start import main
    from tallyveil.runs.observer import Stopwatch

    sys.argv = ["tallyveil", *words]
    try:
        with mock.patch.object(Stopwatch, "stage", meter.staged(Stopwatch.stage)):
            main()
    finally:
        meter.read()
        report.write_text(json.dumps(meter.seconds))


@dataclass(frozen=True, slots=True)
class Needed:
    """What a run needs, as predicted or as measured: seconds in all and by stage, bytes of memory and of disk."""

    seconds: float
    memory: int
    disk: int
    stages: dict[str, float]


@dataclass(frozen=True, slots=True)
class Compared:
    """A shape: what was predicted and measured, and the run's processor time and wait."""

    predicted: Needed
    measured: Needed
    processor: float
    wait: float

    @property
    def ratios(self) -> tuple[float, float]:
        """Predicted over measured: seconds and memory."""
        return (
            self.predicted.seconds / self.measured.seconds,
            self.predicted.memory / self.measured.memory,
        )


def tallyveil(*words: str) -> str:
    """What a command prints."""
    return subprocess.run([*COMMAND, *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def release_of(shape: Shape, folder: Path) -> Path:
    """The release file of a shape; its inputs are made in the folder if they are not there."""
    name = re.sub(r"\W+", "-", " ".join(shape.make)).strip("-")
    out = folder / name
    if shape.make and not out.exists():
        tallyveil(*(word.replace("OUT", str(out)) for word in shape.make))
    return shape.release(out)


def n_records(path: Path, count: str | None) -> int:
    """Number of records in a file."""
    import polars as pl

    table = pl.scan_parquet(path)
    return int(table.select(pl.len() if count is None else pl.col(count).sum()).collect().item())


def predicted(release: Path, people: int) -> Needed:
    """What `tallyveil plan` says."""
    words = ("plan", str(release), "--json", "--read-geography", "--people", str(people))
    needed = json.loads(tallyveil(*words))["resources"]
    return Needed(needed["seconds"], needed["memory_bytes"], needed["disk_bytes"], needed.get("stages", {}))


def run(release: Path) -> tuple[Needed, float, float]:
    """What a run needs; its processor time and its wait."""
    with tempfile.TemporaryDirectory() as folder:
        report, out = Path(folder) / "stages.json", Path(folder) / "out"
        words = ("run", str(release), "--out", str(out), "--workers", "2", "--quiet")
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, __file__, "--inside", str(report), *words], stdout=subprocess.DEVNULL
        )
        # Only this call tells the memory of this very process.
        _, status, usage = os.wait4(process.pid, 0)
        wait = time.perf_counter() - start
        if status != 0:
            raise SystemExit(f"{release}: the run failed")
        stages = json.loads(report.read_text())
        disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    needed = Needed(sum(stages.values()), usage.ru_maxrss * 1024, disk, stages)
    return needed, usage.ru_utime + usage.ru_stime, wait


def compare(shape: Shape, folder: Path) -> Compared:
    """Predict a shape and run it."""
    release = release_of(shape, folder)
    forecast = predicted(release, n_records(release.parent / shape.records[0], shape.records[1]))
    return Compared(forecast, *run(release))


HEADS = (
    "shape",
    *("predicted s", "measured s", "ratio", "processor s", "wait s"),
    *("predicted MiB", "measured MiB", "ratio", "predicted disk", "measured disk"),
)


def row(name: str, compared: Compared) -> tuple[str, ...]:
    """A line of the table."""
    forecast, measured, (seconds, memory) = compared.predicted, compared.measured, compared.ratios
    return (
        name,
        *(f"{forecast.seconds:.1f}", f"{measured.seconds:.1f}", f"{seconds:.2f}"),
        *(f"{compared.processor:.1f}", f"{compared.wait:.1f}"),
        *(f"{forecast.memory / MIB:.0f}", f"{measured.memory / MIB:.0f}", f"{memory:.2f}"),
        *(f"{forecast.disk / MIB:.1f}", f"{measured.disk / MIB:.1f}"),
    )


def show(rows: list[tuple[str, ...]]) -> None:
    """Print a table in the form of benchmarks/README.md."""
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for line in rows:
        print(f"| {' | '.join(line)} |")


def show_stages(compared: Compared) -> None:
    """Print the seconds of every stage, predicted and measured."""
    forecast, measured = compared.predicted.stages, compared.measured.stages
    for stage in dict.fromkeys((*forecast, *measured)):
        print(f"    {stage:40} {forecast.get(stage, 0.0):8.2f} {measured.get(stage, 0.0):8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", help="shapes whose names begin so, divided by commas")
    parser.add_argument("--large", action="store_true", help="also the shape that takes minutes")
    parser.add_argument("--stages", action="store_true", help="show the seconds of every stage")
    parser.add_argument("--keep", type=Path, help="folder for the inputs, which are then kept")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    headline.add_option(parser)
    given = parser.parse_args()
    starts = tuple(given.only.split(",")) if given.only else ("",)
    compared: dict[str, Compared] = {}
    with tempfile.TemporaryDirectory() as folder:
        folder_of_runs = given.keep or Path(folder)
        tallyveil("warm-up", "--quiet")
        run(release_of(FIRST, folder_of_runs))
        for shape in SHAPES:
            if not shape.name.startswith(starts) or (shape.large and not given.large):
                continue
            if shape.needs is not None and not shape.needs.exists():
                print(f"left out: {shape.name} needs {shape.needs}")
                continue
            compared[shape.name] = compare(shape, folder_of_runs)
            print("  ".join(row(shape.name, compared[shape.name])), flush=True)
            if given.stages:
                show_stages(compared[shape.name])
    print()
    show([row(*each) for each in compared.items()])
    lines = []
    for number, what in enumerate(("seconds", "memory")):
        ratios = [each.ratios[number] for each in compared.values()]
        # Too little is as wrong as too much.
        factor = max(max(ratio, 1 / ratio) for ratio in ratios)
        print(f"worst factor of {what}: {factor:.2f}")
        lines.append(
            headline.Headline(f"worst factor, {what}", f"{factor:.2f}", "of its target", FACTOR / factor)
        )
    for name, each in compared.items():
        if each.predicted.disk < each.measured.disk:
            print(f"{name}: takes more disk space than predicted")
    if given.json is not None:
        given.json.write_text(json.dumps({name: asdict(each) for name, each in compared.items()}, indent=1))
    headline.write(given.headline, lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
