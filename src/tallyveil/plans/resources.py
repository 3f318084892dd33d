"""Predict the seconds, the memory and the disk space of a run, from public sizes alone.

No record is read. A disk that is too small is refused before anything is spent. The number of people is given
by the user, or it is forty for each finest geounit, and a curve gives the number of cells that they fill.

A prediction adds up amounts of work, each times a constant of this module. Seconds are those of a run on two idle
cores of a 2020s server whose kernels are compiled. They and the memory are meant to be right within a factor of 1.5,
both ways; `benchmarks/predictions.py` compares them with runs, and the constants were fitted to it.

The work of an outer pass at a geolevel grows with its *entries*: the children of all parents, times the cells that a
parent fills. A family is solved in one piece on one core, so a large family needs much memory. A family of a lift
pass reaches down to the finest geounits, so that each geolevel takes about as long as any other.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.tables import has_zeros
from tallyveil.geography.spine import Spine
from tallyveil.plans.estimating import TREE_VALUES
from tallyveil.plans.machine import in_gib, machine_memory
from tallyveil.plans.release import ReleasePlan

PEOPLE_PER_GEOUNIT: Final = 40
"""People in a finest geounit, if the total number is not given."""

GEOUNITS_PER_PARENT: Final = (30.0, 3.5, 45.0, 60.0)
"""Children of a geounit, from the parents of the finest geounits upward, as in the census. The last number repeats."""

MOST_CHILDREN, LARGEST_SHARE = 30, 0.6
"""The largest number of children of a parent is taken to be the first number times the mean, and at most the second
number, a share, times all children."""

FILLED_CELLS: Final = ((1, 1), (30, 6), (900, 40), (3_100, 70), (146_000, 270), (12_700_000, 900))
"""People in a geounit, and how many of the 2,016 cells of redistricting data they fill; linear on a log-log scale
between these points."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Public sizes of a run.

    Attributes:
        geounits: Geounits of every geolevel, root first.
        people: Number of people.
        most_children: Most children of a parent, by geolevel of the children; 1 at the root.
    """

    geounits: tuple[int, ...]
    people: int
    most_children: tuple[int, ...]


def sizes_of_spine(spine: Spine, people: int | None = None) -> Sizes:
    """Sizes of a geography, with forty people for each finest geounit if no number is given."""
    geounits = tuple(spine.n_geounits(level) for level in range(spine.n_levels))
    most = tuple(int(np.diff(offsets).max()) for offsets in spine.child_offsets)
    return Sizes(geounits, people if people is not None else PEOPLE_PER_GEOUNIT * geounits[-1], (1, *most))


def sizes_of_blocks(n_levels: int, blocks: int, people: int | None = None) -> Sizes:
    """Sizes of a hierarchy with a given number of finest geounits, and with fan-outs like those of the census.

    Args:
        n_levels: Number of geolevels.
        blocks: Number of finest geounits.
        people: Number of people; None for forty for each finest geounit.
    Raises:
        ConfigError: there are no finest geounits, or the number of people is negative.
    """
    if blocks < 1 or (people is not None and people < 0):
        raise ConfigError(
            f"sizes to predict for: got {blocks} finest geounits and {people} records; wanted at least 1 finest "
            "geounit and at least 0 records.",
            code="bad-flag",
        )
    geounits = [blocks]
    for step in range(n_levels - 1):
        ratio = GEOUNITS_PER_PARENT[min(step, len(GEOUNITS_PER_PARENT) - 1)]
        # Rounded at each step from the finest upward, so that a hierarchy has at least one geounit everywhere.
        # Nearly every hierarchy has one root.
        geounits.append(max(1, round(geounits[-1] / ratio)) if step < n_levels - 2 else 1)
    geounits.reverse()
    most = [1, *(_most_children(below, above) for above, below in pairwise(geounits))]
    return Sizes(tuple(geounits), people if people is not None else PEOPLE_PER_GEOUNIT * blocks, tuple(most))


def _most_children(geounits: int, parents: int) -> int:
    """Most children of a parent where only the numbers of both are known: a large county has most tracts of a state."""
    # A single parent has all children; no guess is needed.
    if parents == 1:
        return geounits
    return max(1, min(MOST_CHILDREN * geounits // parents, round(LARGEST_SHARE * geounits)))


def filled_cells(
    sizes: Sizes, n_cells: int, curve: Sequence[tuple[int, int]] = FILLED_CELLS
) -> tuple[int, ...]:
    """Number of non-zero cells at each geolevel.

    Args:
        sizes: Public sizes.
        n_cells: Number of cells of the schema.
        curve: People in a geounit, and how many cells they fill.
    """
    filled = []
    for n_geounits in sizes.geounits:
        each = sizes.people / n_geounits
        # No geounit fills more cells than it has people, nor more than the schema has.
        filled.append(round(n_geounits * min(cells_of(each, curve), each, n_cells)))
    return tuple(filled)


def cells_of(people: float, curve: Sequence[tuple[int, int]] = FILLED_CELLS) -> float:
    """How many cells people fill in one geounit."""
    # Straight lines between the logarithms; outside the curve its ends hold, and nobody fills one cell.
    given, cells = np.log(np.array(curve, dtype=np.float64)).T
    return float(np.exp(np.interp(np.log(max(people, 1.0)), given, cells)))


FILLED_IN_PASSES: Final = (
    (1, 1), (30, 17), (600, 280), (2_000, 730), (100_000, 9_000), (500_000, 31_000), (20_000_000, 200_000),
)  # fmt: skip
"""Persons or units in a geounit, and how many cells of the Demographic and Housing Characteristics they fill: the
larger number of the two products, measured up to a million; the last point is an extrapolation."""

ANSWERS_PER_CELL: Final = 2.5
"""Number of answers on the support, over all queries of redistricting data, for each cell of the support."""

MIB: Final = 1 << 20

START: Final = 2.6
"""Seconds to start Python, to load modules and compiled kernels, and to write what every release has. A release of
twenty blocks takes little else: 2.6 s are predicted for it, and 3.1 s were measured. The first run on a machine also
compiles kernels, which takes about 53 s more."""

ROW: Final = 0.15e-6
"""Seconds to read a row of records, to count a cell of a geolevel, and to write or to check a row of a table."""

VALUE: Final = 25e-9
"""Seconds to draw and to write a noisy value. For a large state all of whose measurements are written, this is half of
the time of the run."""

SWEPT: Final = 5e-9
"""Seconds to draw or read a noisy value again and to add it up, for values of the tree."""

ESTIMATED: Final = 2.5e-6
"""Seconds to estimate and to round a cell that is not zero. Geolevels differ: from 1 to 3 microseconds, and 17 where a
family has 1,351 children; but most cells are in the finest geounits, where families are easy."""

UNDETERMINED: Final = 1.8e-6
"""More seconds of a pass, for a cell of the parent's support in a geounit whose geolevel does not measure the detailed
query: every such cell stays in the family, however small."""

RECORD: Final = 1.7e-6
"""Seconds to read a record for outer passes: it is put into groups of every pass."""

ROOT: Final = 0.9
"""Seconds of all outer passes at the root, which has no parent whose filled cells would measure its work."""

ENTRY: Final = 1.4e-6
"""Seconds of an entry in all outer passes: a child, times a cell that its parent fills."""

FINEST_ENTRY: Final = 0.45e-6
"""The same at the finest geolevel, where families are small, and both cores have work to the end."""

LIFTED: Final = 20e-6
"""Seconds of a finest geounit in a lift pass, at each geolevel: its flows reach down to the finest geounits."""

INTERVALS, APART = 0.6, 5.0
"""Seconds to load what makes intervals and to invert the covariances; and those of a table that has a model of its own,
whose covariances are of the 50 to 100 atoms that its queries tell apart."""

INTERVAL: Final = 0.4e-6
"""Seconds to compute an interval and to write it twice."""

READ: Final = 18e-9
"""Seconds to read a noisy value for intervals, for each model that it is read for."""

BASE_BYTES: Final = 390 * MIB
"""Memory of the program with its libraries and compiled kernels: what a release of twenty blocks needs."""

PASSES_BYTES: Final = 130 * MIB
"""More of it with outer passes: their kernels, and the groups of a schema of a million cells."""

GEOUNIT_BYTES: Final = 48
"""Memory of the text and the offsets of a geounit."""

CELL_BYTES: Final = 24
"""Memory of a non-zero cell of a geolevel, true and estimated."""

BOUND_BYTES: Final = 8
"""Memory of the lower and the upper bound of an answer of a geounit."""

NOISE_BYTES, MOST_NOISE_BYTES = 20, 600 * MIB
"""Memory of a noisy value of a geolevel while it is drawn and written, and the most of all: values are drawn in pieces
by two threads, whose size does not depend on the geolevel."""

ROW_BYTES, MOST_ROWS = 100, 1 << 20
"""Memory of a row of microdata while it is written and checked, and the most rows at a time."""

SUMMED_BYTES: Final = 28
"""Memory of a non-zero cell of the finest geolevel while a file of it is read."""

WHOLE_BYTES: Final = 100
"""Memory of a non-zero cell of a geolevel while the cells of outer passes are put together, written and checked."""

FAMILY_BYTES: Final = 16
"""Memory of an entry of the largest family of an outer pass."""

LIFTED_BYTES: Final = 4 << 10
"""Memory of a finest geounit below the family of a lift pass that is being split."""

SWEPT_BYTES, SWEEP_BYTES = 4, 200
"""Memory for values of the tree: of a cell of a geounit above the finest geolevel, or of an answer if these are more;
and of a cell or an answer of the geounit on which a sweep up the spine works."""

INTERVALS_BYTES: Final = 100 * MIB
"""Memory of what makes intervals. It is added to that of the release, of which the system gets little back."""

INTERVAL_BYTES: Final = 12
"""Memory of an interval."""

ABOVE_BYTES: Final = 40
"""Memory of a cell of a geounit above the finest geolevel, while intervals are made."""

APART_BYTES: Final = 600_000
"""The same of a geounit, where each table has a model of its own with, say, 64 atoms."""

KEPT_BYTES, MOST_KEPT = 2, 1 << 30
"""Memory of a noisy value that is kept so that it is read only once, and the most of all."""

DISK_GEOUNIT, DISK_CELL, DISK_PERSON, DISK_VALUE = 2.0, 3.0, 0.6, 1.1
"""Bytes in files of a finest geounit, a non-zero cell, a row of microdata and a noisy value."""

DISK_ZEROS, DISK_NO_ZEROS, DISK_INTERVAL = 1.2, 4.0, 13.0
"""Bytes in files of a row of a table with zeros, of a row of a table without, and of an interval, which is written in
intervals/ and once more in the tables."""

DISK_BASE: Final = 8 * MIB
"""Plan, manifest, page and log, which hardly depend on the release. No disk may be found too small after the spend, so
numbers of bytes in files are rounded up."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Predicted resources of a run.

    Attributes:
        sizes: Sizes of the population.
        memory: Largest resident memory, bytes.
        seconds: By stage, on two cores, in the order of the run.
        disk: Size of the release folder, bytes.
    """

    sizes: Sizes
    memory: int
    seconds: tuple[tuple[str, float], ...]
    disk: int

    @property
    def total_seconds(self) -> float:
        """Seconds of all stages."""
        return sum(seconds for _, seconds in self.seconds)


def predict(plan: ReleasePlan, sizes: Sizes) -> Resources:
    """Predict the resources that a run of a plan needs for a population of given sizes.

    Args:
        plan: The release.
        sizes: Public sizes, as `sizes_of_spine` or `sizes_of_blocks` give them.
    Raises:
        ConfigError: the sizes do not have as many geolevels as the plan.
    """
    if len(sizes.geounits) != len(plan.geolevels):
        raise ConfigError(
            f"sizes of {len(sizes.geounits)} geolevels for a plan of {len(plan.geolevels)} geolevels. Give one "
            "number of geounits for every geolevel.",
            code="bad-flag",
        )
    work = _work(plan, sizes)
    return Resources(sizes, _memory(plan, sizes, work), _seconds(plan, sizes, work), _disk(sizes, work))


@dataclass(frozen=True, slots=True)
class _Work:
    """Amount of work.

    Attributes:
        cells: Non-zero cells of each geolevel.
        values: Noisy values that are written at each geolevel.
        bounds: Answers with bounds, of all geounits.
        zeros, no_zeros: Rows of tables with zeros, and of tables without.
        people: Rows of microdata.
        rows_read: Rows of records.
        intervals: Intervals of all tables.
    """

    cells: tuple[int, ...]
    values: tuple[int, ...]
    bounds: int
    zeros: int
    no_zeros: int
    people: int
    rows_read: int
    intervals: int

    @property
    def rows(self) -> int:
        """Rows of tables and microdata."""
        return self.zeros + self.no_zeros + self.people


def _work(plan: ReleasePlan, sizes: Sizes) -> _Work:
    # Outer passes fill cells differently, because each pass divides the counts of the one before.
    cells = filled_cells(sizes, plan.schema.size, FILLED_IN_PASSES if plan.outer else FILLED_CELLS)
    groups = [plan.query(name) for name in plan.tables]
    # What has bounds, and its finest geolevel: bounds are summed upward, to all geolevels above.
    bounded = [(item.query, item.geolevel) for item in plan.bounds]
    bounded += [(item.query, item.geolevel) for item in plan.subspace]
    bounded += [(item.query, max(item.geolevels, key=plan.geolevels.index)) for item in plan.invariants]
    return _Work(
        cells=cells,
        values=_values_written(plan, sizes, cells),
        bounds=sum(
            plan.query(query).size * sum(sizes.geounits[: plan.geolevels.index(level) + 1])
            for query, level in bounded
        ),
        zeros=sum(group.size for group in groups if has_zeros(group)) * sum(sizes.geounits),
        no_zeros=sum(cells) * sum(not has_zeros(group) for group in groups),
        people=sizes.people if plan.microdata else 0,
        rows_read=cells[-1] if plan.records.count is not None else sizes.people,
        intervals=0 if plan.intervals is None else sum(group.size for group in groups) * sum(sizes.geounits),
    )


def _values_written(plan: ReleasePlan, sizes: Sizes, cells: tuple[int, ...]) -> tuple[int, ...]:
    """Number of noisy values that are written at each geolevel."""
    values = []
    for number, (level, n) in enumerate(zip(plan.geolevels, sizes.geounits, strict=True)):
        written = plan.written(level, n)
        if plan.measurements == "support":
            written = plan.strategy.queries(level)
        answers = sum(plan.query(name).size for name in written)
        if plan.measurements == "support" and number > 0:
            # Cells that a mean parent fills; on the support, answers follow these and not the size of the query.
            support = cells[number - 1] / sizes.geounits[number - 1]
            answers = min(answers, round(ANSWERS_PER_CELL * support))
        values.append(n * answers)
    return tuple(values)


def _undetermined(plan: ReleasePlan, sizes: Sizes) -> list[int]:
    """Cells of the parents' supports, over all geounits of each geolevel that does not measure the detailed query.

    Nothing pushes these cells to zero, so a support can have as many cells as the geounit has people. Cells count once
    for each pass: the last pass takes longer the more passes there are whose answers it keeps.
    """
    undetermined, support = [], plan.schema.size
    # From the root down; the support of a geolevel is what the one above has filled.
    for level, n in zip(plan.geolevels, sizes.geounits, strict=True):
        detailed = any(plan.query(name).is_detailed for name in plan.strategy.queries(level))
        undetermined.append(0 if detailed else n * support * len(plan.estimation_of(level).passes))
        # A geounit of n people fills at most n cells, and at least one.
        support = min(plan.schema.size, max(1, sizes.people // n))
    return undetermined


def _swept(plan: ReleasePlan) -> list[int]:
    """For a geounit of each geolevel, the noisy values that a sweep up the spine reads, whatever is known to be zero:
    no record is read, and no public input is open."""
    return [
        sum(plan.query(name).size for name in plan.strategy.queries(level)) if plan.uses_tree else 0
        for level in plan.geolevels
    ]


def _memory(plan: ReleasePlan, sizes: Sizes, work: _Work) -> int:
    held = BASE_BYTES + GEOUNIT_BYTES * sum(sizes.geounits)
    held += CELL_BYTES * sum(work.cells) + BOUND_BYTES * work.bounds
    # What is needed for a time only; of these, one after the other.
    passing = [
        SUMMED_BYTES * work.cells[-1],
        min(NOISE_BYTES * max(work.values), MOST_NOISE_BYTES),
        ROW_BYTES * min(work.people, MOST_ROWS),
    ]
    if plan.outer:
        held += PASSES_BYTES
        passing += [WHOLE_BYTES * sum(work.cells), largest_family_bytes(sizes)]
        passing += [LIFTED_BYTES * sizes.geounits[-1] if any(_lifts(plan)) else 0]
    if plan.uses_tree:
        # At least all cells: which of cells and answers are kept is known only when the bounds are read.
        widths = [max(size, plan.schema.size) for size in _swept(plan)]
        held += SWEPT_BYTES * _total(widths[:-1], sizes.geounits[:-1]) + SWEEP_BYTES * max(widths)
    if work.intervals:
        held += INTERVALS_BYTES + INTERVAL_BYTES * work.intervals
        above = sum(sizes.geounits[:-1])
        # Noisy values are kept for one model of all cells; for models of tables they are read again.
        held += (
            APART_BYTES * above
            if plan.tables_apart
            else ABOVE_BYTES * above * plan.schema.size + min(KEPT_BYTES * sum(work.values), MOST_KEPT)
        )
    return held + max(passing)


def largest_family_bytes(sizes: Sizes) -> int:
    """Memory of the largest family of any geolevel in outer passes.

    The people of its parent are not known yet. If the children are a hundredth of all geounits of their geolevel, the
    parent is taken to have a hundredth of all people.
    """
    # The root is no one's child; the 0 keeps the maximum defined for a spine of the root alone.
    entries = [0.0]
    for most, n in zip(sizes.most_children[1:], sizes.geounits[1:], strict=True):
        entries.append(most * cells_of(sizes.people * most / n, FILLED_IN_PASSES))
    return int(FAMILY_BYTES * max(entries))


def _lifts(plan: ReleasePlan) -> list[bool]:
    """Whether each outer pass is a lift pass."""
    return [outer.part is not None for outer in plan.outer]


def _total(each: Sequence[int], geounits: Sequence[int]) -> int:
    """A number of a geounit of each geolevel, over all geounits."""
    return sum(size * n for size, n in zip(each, geounits, strict=True))


def _seconds(plan: ReleasePlan, sizes: Sizes, work: _Work) -> tuple[tuple[str, float], ...]:
    record = RECORD if plan.outer else 0.0
    stages = [
        ("start", START),
        ("read records", ROW * (work.rows_read + sum(work.cells)) + record * work.rows_read),
    ]
    if plan.uses_tree:
        stages.append((TREE_VALUES, SWEPT * _total(_swept(plan), sizes.geounits)))
    measured = zip(plan.geolevels, work.values, strict=True)
    stages += [(f"measure {level}", VALUE * values) for level, values in measured]
    if plan.outer:
        stages += pass_seconds(_lifts(plan), plan.geolevels, sizes, work.cells)
    else:
        undetermined = zip(plan.geolevels, work.cells, _undetermined(plan, sizes), strict=True)
        stages += [
            (f"estimate {level}", ESTIMATED * cells + UNDETERMINED * more)
            for level, cells, more in undetermined
        ]
    stages.append(("microdata", ROW * work.people))
    stages.append(("tables", ROW * (work.zeros + work.no_zeros)))
    # The cells of a geolevel are read, and once more to be added up to those above.
    stages.append(("checks", ROW * (work.rows + 2 * sum(work.cells))))
    if work.intervals:
        models, covariances = (len(plan.tables), APART) if plan.tables_apart else (1, INTERVALS)
        each = covariances + READ * sum(work.values)
        stages.append(("intervals", models * each + INTERVAL * work.intervals))
    return tuple(stages)


def pass_seconds(
    lifts: Sequence[bool], levels: Sequence[str], sizes: Sizes, cells: Sequence[int]
) -> list[tuple[str, float]]:
    """Seconds of every outer pass. What a geolevel takes is divided equally among the passes that are no lift passes.

    Args:
        lifts: Whether each pass is a lift pass.
        levels: Geolevels, root first.
        sizes: Public sizes.
        cells: Number of non-zero cells at each geolevel.
    """
    each = [ROOT]
    for number in range(1, len(levels)):
        # Children, times the cells that an average parent fills.
        entries = sizes.geounits[number] * cells[number - 1] / sizes.geounits[number - 1]
        each.append((FINEST_ENTRY if number == len(levels) - 1 else ENTRY) * entries)
    return [
        (
            f"pass {number} of {level}",
            LIFTED * sizes.geounits[-1] if is_lift else seconds / lifts.count(False),
        )
        for number, is_lift in enumerate(lifts, start=1)
        for level, seconds in zip(levels, each, strict=True)
    ]


def _disk(sizes: Sizes, work: _Work) -> int:
    size = DISK_GEOUNIT * sizes.geounits[-1] + DISK_CELL * sum(work.cells)
    size += DISK_PERSON * work.people + DISK_VALUE * sum(work.values)
    size += DISK_ZEROS * work.zeros + DISK_NO_ZEROS * work.no_zeros + DISK_INTERVAL * work.intervals
    return int(size) + DISK_BASE


def warn_small_machine(resources: Resources, memory: int | None = None) -> str | None:
    """A warning if the machine has less memory than the predicted need of a run; otherwise None.

    Args:
        resources: The prediction.
        memory: Bytes of memory of the machine; None for this machine.
    """
    has = memory if memory is not None else machine_memory()
    if has >= resources.memory:
        return None
    return (
        f"this release is expected to need {in_gib(resources.memory)} of memory, and this process may use "
        f"{in_gib(has)}. It may be stopped by the operating system; the same command then takes it up again at no "
        "new cost, on a larger machine, too."
    )


def refuse_small_disk(resources: Resources, out: Path) -> None:
    """Refuse a disk that is too small for the release.

    Args:
        resources: The prediction for the plan and the geography alone, with the usual number of people.
        out: Folder of the release.
    Raises:
        StoreError: the free space is less than the predicted size of the release.
    """
    # Predicted for the folder as it will be, with intervals and microdata if the plan asks for them.
    wanted, free = resources.disk, free_disk(out)
    if free < wanted:
        raise StoreError(
            f"the disk on which {out} would be written has {free >> 20} MiB free, and this release needs about "
            f"{wanted >> 20} MiB. Free some space, or choose another disk with --out. Nothing was spent.",
            code="disk-full",
        )


def free_disk(out: Path) -> int:
    """Free bytes on the disk of a folder that exists or will be made."""
    # The folder need not exist; its nearest parent that does is on the same disk.
    folder = next(parent for parent in (out, *out.absolute().parents) if parent.exists())
    return shutil.disk_usage(folder).free
