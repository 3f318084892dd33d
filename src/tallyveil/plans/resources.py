"""Predict the memory, the time of each stage and the disk space of a run, from public sizes alone.

No record is read. A disk that is too small is refused before anything is spent. The number of people is given
by the user, or it is forty for each finest geounit, and a curve gives the number of cells that they fill. The
rates were measured in runs on two cores of a 2020s server and rounded up: Rhode Island (25,181 blocks, 1.05
million people), a Pennsylvania-size state (421,545 blocks, 12.7 million people) and a US-size country (8
million blocks, 330 million people).

The numbers for outer passes are upper estimates. The work of a pass at a geolevel grows with its *entries*:
the children of all parents, times the cells that a parent fills. A family is solved in one piece, so the
largest family decides the memory. Their rates were measured as processor time with the persons and the units
of the Demographic and Housing Characteristics: Rhode Island (25,181 blocks), a made-up state of 50,000
blocks, and for roots, counties and memory one of 421,545 blocks. They were rounded up. They are not divided
by the number of cores, because the largest family of a geolevel is the work of one core.

Since then Newton's method of the passes has become faster, so the predictions are further above what is
measured. The largest family that was measured has 1,351 children and 22 million unknown counts.

Lift passes were measured with the persons and the units of 25,181 blocks, whose files agree. A family of a
lift pass reaches down to the finest geounits, so that each geolevel takes about as long as any other.
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


@dataclass(frozen=True, slots=True)
class PassRates:
    """Measured costs of one unit of work.

    Attributes:
        base_bytes: The program with its libraries, compiled kernels and the schema.
        entry_bytes: A non-zero cell of a geolevel, true and estimated.
        person_bytes: A record while records are read.
        family_bytes: An entry of the family that is being solved.
        lift_bytes: A finest geounit below the family of a lift pass that is being split.
        records: Seconds to read a record.
        agreed: Seconds to read and compile the constraints of a finest geounit.
        root: Seconds of all passes at the root.
        estimate_top, estimate, estimate_finest: Seconds of an entry in all passes: below the root; at geolevels
            between; at the finest geolevel, where families are small.
        lift: Seconds of a finest geounit in a lift pass, at each geolevel: its flows reach down to the finest geounits.
        whole: Seconds to put a non-zero cell of the finest geolevel together from all passes.
        checks: Seconds to check a non-zero cell of a geolevel.
    """

    base_bytes: int = 500 << 20
    entry_bytes: int = 36
    person_bytes: int = 60
    family_bytes: int = 60
    lift_bytes: int = 4 << 10
    records: float = 1.5e-6
    agreed: float = 40e-6
    root: float = 8.0
    estimate_top: float = 15e-6
    estimate: float = 6e-6
    estimate_finest: float = 1e-6
    lift: float = 80e-6
    whole: float = 5e-6
    checks: float = 2.5e-6


PASS_RATES: Final = PassRates()


def largest_family_bytes(sizes: Sizes, rates: PassRates = PASS_RATES) -> int:
    """Memory of the largest family of any geolevel. Its parent has as large a share of the people as its
    children are of all geounits of their geolevel."""
    # The root is no one's child; the 0 keeps the maximum defined for a spine of the root alone.
    entries = [0.0]
    for most, n in zip(sizes.most_children[1:], sizes.geounits[1:], strict=True):
        entries.append(most * cells_of(sizes.people * most / n, FILLED_IN_PASSES))
    return int(rates.family_bytes * max(entries))


def largest_lift_bytes(lifts: tuple[bool, ...], sizes: Sizes, rates: PassRates = PASS_RATES) -> int:
    """Memory of the largest family of any lift pass, the one at the root; 0 without lift passes."""
    return rates.lift_bytes * sizes.geounits[-1] if any(lifts) else 0


def pass_seconds(
    lifts: tuple[bool, ...],
    levels: tuple[str, ...],
    sizes: Sizes,
    filled: tuple[int, ...],
    rates: PassRates = PASS_RATES,
) -> list[tuple[str, float]]:
    """Seconds of every pass, and of putting their counts together.

    What a geolevel takes is divided equally among the passes that are no lift passes.

    Args:
        lifts: Whether each pass is a lift pass.
        levels: Geolevels, root first.
        sizes: Public sizes.
        filled: Number of non-zero cells at each geolevel.
        rates: Measured costs.
    """
    # The root has no parent to take entries from, so its seconds are a constant.
    each = [rates.root]
    for number in range(1, len(levels)):
        # Children, times the cells that an average parent fills: entries as the module defines them.
        entries = sizes.geounits[number] * filled[number - 1] / sizes.geounits[number - 1]
        rate = rates.estimate_top if number == 1 else rates.estimate
        each.append((rates.estimate_finest if number == len(levels) - 1 else rate) * entries)
    estimated, lifted = lifts.count(False), rates.lift * sizes.geounits[-1]
    stages = [
        (f"pass {number} of {level}", lifted if is_lift else seconds / estimated)
        for number, is_lift in enumerate(lifts, start=1)
        for level, seconds in zip(levels, each, strict=True)
    ]
    return [*stages, ("whole cells", rates.whole * filled[-1])]


# Bytes of a mebibyte.
MIB: Final = 1 << 20
ANSWERS_PER_CELL: Final = 2.5
"""Number of answers on the support, over all queries of redistricting data, for each cell of the support."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Measured costs of one unit of work.

    Attributes:
        base_bytes: The program with its libraries and compiled kernels.
        piece_bytes: Memory for the work on one piece of a geolevel, which does not depend on the size of the geolevel.
        geounit_bytes: Text and offsets of a geounit.
        entry_bytes: A non-zero cell of a geolevel, true and estimated.
        bound_bytes: Lower and upper bound of one answer of one geounit.
        summing_bytes: A non-zero cell of the finest geolevel while a file of it is read.
        measure_bytes: Noisy values held at once, on two cores.
        geography, records, bounds, histogram, microdata, zeros, no_zeros, checks: Seconds to read a finest
            geounit; a cell or (in one row a person) a person; to compile a bound; to write a cell, a person, a row
            of a table with zeros, a row of one without; to check a cell or a row.
        measure, read: Seconds of a noisy value, on two cores: drawn and written; read for intervals.
        estimate, estimate_finest: Seconds of a non-zero cell, measured on the support, estimated and rounded, on two
            cores; at the finest geolevel, where families are easy.
        estimate_undetermined: More seconds of a pass, on two cores, of a cell of the parent's support in a geounit,
            where the detailed query is not measured; of about a hundred answers.
        tree: Seconds to draw or read a noisy value and to add it up, for the values of the tree, on two cores.
        tree_bytes: Memory of a cell of a geounit above the finest geolevel, or of an answer if these are more, for the
            values of the tree.
        sweep_bytes: Memory of a cell or an answer of a geounit while a sweep up the spine works on it.
        interval, covariance: Seconds to compute and write an interval; to compute the covariances of a finest geounit.
        interval_bytes: Memory of a cell of a geounit above the finest geolevel, while intervals are made.
        apart_bytes: Memory of a geounit above the finest geolevel, while intervals of one table with 64 atoms are made.
        kept_bytes: Memory of the noisy values that are kept so that they are read only once.
        compile: Seconds to load the compiled kernels. The first run takes a minute more.
        disk_*: Bytes of a file's geounit, cell, person, row or noisy value.
    """

    base_bytes: int = 300 * MIB
    piece_bytes: int = 350 * MIB
    geounit_bytes: int = 48
    entry_bytes: int = 16
    bound_bytes: int = 8
    summing_bytes: int = 28
    measure_bytes: int = 700 * MIB
    geography: float = 0.5e-6
    records: float = 0.2e-6
    bounds: float = 0.2e-6
    histogram: float = 0.3e-6
    microdata: float = 0.3e-6
    zeros: float = 0.12e-6
    no_zeros: float = 0.3e-6
    checks: float = 0.2e-6
    measure: float = 25e-9
    read: float = 20e-9
    estimate: float = 3e-6
    estimate_finest: float = 2e-6
    estimate_undetermined: float = 1.8e-6
    tree: float = 7e-9
    tree_bytes: int = 4
    sweep_bytes: int = 200
    interval: float = 0.6e-6
    covariance: float = 12e-6
    interval_bytes: int = 40
    apart_bytes: int = 600_000
    kept_bytes: int = 1 << 30
    compile: float = 4.0
    disk_geounit: float = 2.0
    disk_entry: float = 3.0
    disk_person: float = 0.6
    disk_zeros: float = 1.2
    disk_no_zeros: float = 4.0
    disk_value: float = 1.0
    disk_interval: float = 6.5


RATES: Final = Rates()


@dataclass(frozen=True, slots=True)
class Resources:
    """Predicted resources of a run.

    Attributes:
        sizes: Sizes of the population.
        memory: Largest resident memory, bytes.
        seconds: By stage, in the order of the run.
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


def predict(plan: ReleasePlan, sizes: Sizes, *, rates: Rates = RATES) -> Resources:
    """Predict the resources that a run of a plan needs for a population of given sizes.

    Args:
        plan: The release.
        sizes: Public sizes, as `sizes_of_spine` or `sizes_of_blocks` give them.
        rates: Measured costs.
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
    return Resources(
        sizes, _memory(work, sizes, rates), _seconds(work, sizes, rates), _disk(work, sizes, rates)
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """Amount of work: non-zero cells, undetermined cells and noisy values by geolevel, noisy values that a sweep up the
    spine reads and numbers that it keeps, in all and of a geounit, bounds, rows of tables and of intervals, and for
    each outer pass whether it is a lift pass."""

    entries: tuple[int, ...]
    undetermined: tuple[int, ...]
    values: tuple[int, ...]
    tree: int
    swept: int
    sweep_row: int
    bounds: int
    zeros: int
    no_zeros: int
    people: int
    rows_read: int
    intervals: int
    cells_above: int
    apart_above: int
    readings: int
    levels: tuple[str, ...]
    passes: tuple[bool, ...]


def _work(plan: ReleasePlan, sizes: Sizes) -> _Work:
    levels = plan.geolevels
    # Outer passes fill cells differently, because each pass divides the counts of the one before.
    entries = filled_cells(sizes, plan.schema.size, FILLED_IN_PASSES if plan.outer else FILLED_CELLS)
    groups = [plan.query(name) for name in plan.tables]
    dense = sum(group.size for group in groups if has_zeros(group))
    bounds = 0
    # Bounds are summed upward, so a constraint costs its own geolevel and all above it.
    for item in plan.bounds:
        reach = levels.index(item.geolevel) + 1
        bounds += sum(sizes.geounits[:reach]) * plan.query(item.query).size
    for invariant in plan.invariants:
        reach = max(levels.index(name) for name in invariant.geolevels) + 1
        bounds += sum(sizes.geounits[:reach]) * plan.query(invariant.query).size
    for drawn in plan.subspace:
        reach = levels.index(drawn.geolevel) + 1
        bounds += sum(sizes.geounits[:reach]) * plan.query(drawn.query).size
    swept, apart = _swept(plan), plan.tables_apart
    # What public files decide is taken at its worst: no record is read for a prediction.
    return _Work(
        entries=entries,
        undetermined=_undetermined(plan, sizes),
        values=_values_written(plan, sizes, entries),
        tree=sum(n * size for n, (size, _) in zip(sizes.geounits, swept, strict=True)),
        swept=sum(n * most for n, (_, most) in zip(sizes.geounits[:-1], swept[:-1], strict=True)),
        sweep_row=max(most for _, most in swept),
        bounds=bounds,
        zeros=dense * sum(sizes.geounits),
        no_zeros=sum(entries) * sum(not has_zeros(group) for group in groups),
        people=sizes.people if plan.microdata else 0,
        rows_read=entries[-1] if plan.records.count is not None else sizes.people,
        intervals=0 if plan.intervals is None else sum(group.size for group in groups) * sum(sizes.geounits),
        cells_above=0 if apart else plan.schema.size * sum(sizes.geounits[:-1]),
        apart_above=sum(sizes.geounits[:-1]) if apart else 0,
        readings=len(plan.tables) if apart else 1,
        levels=levels,
        passes=tuple(outer_pass.part is not None for outer_pass in plan.outer),
    )


def _undetermined(plan: ReleasePlan, sizes: Sizes) -> tuple[int, ...]:
    """Cells of the parents' supports, over all geounits of each geolevel that does not measure the detailed query.

    Nothing pushes these cells to zero, so a support can have as many cells as the geounit has people. Cells count once
    for each pass: the last pass takes longer the more passes there are whose answers it keeps.
    """
    undetermined, support = [], plan.schema.size
    # From the root down; the support of a geolevel is what the one above has filled.
    for level, n in zip(plan.geolevels, sizes.geounits, strict=True):
        # The last outer pass is fitted to a query that tells its cells apart.
        detailed = bool(plan.outer) or any(
            plan.query(name).is_detailed for name in plan.strategy.queries(level)
        )
        undetermined.append(0 if detailed else n * support * len(plan.estimation_of(level).passes))
        # A geounit of n people fills at most n cells, and at least one.
        support = min(plan.schema.size, max(1, sizes.people // n))
    return tuple(undetermined)


def _values_written(plan: ReleasePlan, sizes: Sizes, entries: tuple[int, ...]) -> tuple[int, ...]:
    """Number of noisy values that are written at each geolevel."""
    values = []
    for number, (level, n) in enumerate(zip(plan.geolevels, sizes.geounits, strict=True)):
        written = plan.written(level, n)
        if plan.measurements == "support":
            written = plan.strategy.queries(level)
        answers = sum(plan.query(name).size for name in written)
        if plan.measurements == "support" and number > 0:
            # Cells that a mean parent fills; on the support, answers follow these and not the size of the query.
            support = entries[number - 1] / sizes.geounits[number - 1]
            answers = min(answers, round(ANSWERS_PER_CELL * support))
        values.append(n * answers)
    return tuple(values)


def _swept(plan: ReleasePlan) -> list[tuple[int, int]]:
    """For a geounit of each geolevel, the noisy values that a sweep up the spine reads, and the numbers that it keeps.

    Nothing is known to be zero. It keeps cells or, where it goes query by query, answers; public inputs decide.
    """
    if not plan.uses_tree:
        return [(0, 0)] * len(plan.geolevels)
    answers = [
        sum(plan.query(name).size for name in plan.strategy.queries(level)) for level in plan.geolevels
    ]
    # At least all cells: which of cells and answers are kept is known only when the bounds are read.
    return [(size, max(size, plan.schema.size)) for size in answers]


def _memory(work: _Work, sizes: Sizes, rates: Rates) -> int:
    held = rates.geounit_bytes * sum(sizes.geounits) + rates.entry_bytes * sum(work.entries)
    held += (
        rates.bound_bytes * work.bounds + rates.tree_bytes * work.swept + rates.sweep_bytes * work.sweep_row
    )
    # The file of the finest counts is read at the start and at the end, never while noise is drawn.
    passing = max(rates.summing_bytes * work.entries[-1], rates.measure_bytes)
    released = rates.base_bytes + rates.piece_bytes + held + passing
    if work.passes:
        # Outer passes hold more of an entry; the difference is added, since the rest is counted above.
        held += (PASS_RATES.entry_bytes - rates.entry_bytes) * sum(work.entries)
        reading = PASS_RATES.person_bytes * work.rows_read
        largest = max(largest_family_bytes(sizes), largest_lift_bytes(work.passes, sizes))
        released = PASS_RATES.base_bytes + held + max(reading, largest)
    if not work.intervals:
        return int(released)
    # Intervals are made when the release is finished, and its memory has been freed.
    # Estimates and variances take as much as the noisy values themselves.
    noisy = min(rates.kept_bytes, 2 * sum(work.values))
    above = rates.interval_bytes * work.cells_above + rates.apart_bytes * work.apart_above
    return int(max(released, rates.base_bytes + above + noisy))


def _seconds(work: _Work, sizes: Sizes, rates: Rates) -> tuple[tuple[str, float], ...]:
    finest = sizes.geounits[-1]
    record, agreed = (PASS_RATES.records, PASS_RATES.agreed) if work.passes else (0.0, 0.0)
    stages = [
        ("read geography", rates.geography * finest),
        ("read records", rates.records * (work.rows_read + sum(work.entries)) + record * work.rows_read),
        ("compile constraints", rates.bounds * work.bounds + agreed * finest),
        ("compile kernels", rates.compile),
    ]
    if work.tree:
        stages.append((TREE_VALUES, rates.tree * work.tree))
    stages += _estimate_seconds(work, sizes, rates)
    stages.append(("microdata", rates.microdata * work.people))
    stages.append(("tables", rates.zeros * work.zeros + rates.no_zeros * work.no_zeros))
    rows = work.zeros + work.no_zeros + work.people
    cell = PASS_RATES.checks if work.passes else 2 * rates.checks
    stages.append(("checks", cell * sum(work.entries) + rates.zeros * rows))
    if work.intervals:
        interval_seconds = rates.covariance * finest + rates.interval * work.intervals
        stages.append(("intervals", interval_seconds + rates.read * work.readings * sum(work.values)))
    return tuple(stages)


def _estimate_seconds(work: _Work, sizes: Sizes, rates: Rates) -> list[tuple[str, float]]:
    """Seconds to measure and to estimate."""
    if work.passes:  # these draw their noise themselves
        written = zip(work.levels, work.values, strict=True)
        measured = [(f"measure {level}", rates.measure * values) for level, values in written]
        return [*measured, *pass_seconds(work.passes, work.levels, sizes, work.entries)]
    stages = []
    for number, level in enumerate(work.levels):
        stages.append((f"measure {level}", rates.measure * work.values[number]))
        rate = rates.estimate_finest if level == work.levels[-1] else rates.estimate
        seconds = (rate + rates.histogram) * work.entries[number]
        stages.append(
            (f"estimate {level}", seconds + rates.estimate_undetermined * work.undetermined[number])
        )
    return stages


def _disk(work: _Work, sizes: Sizes, rates: Rates) -> int:
    size = rates.disk_geounit * sizes.geounits[-1] + rates.disk_entry * sum(work.entries)
    size += rates.disk_person * work.people + rates.disk_value * sum(work.values)
    size += rates.disk_zeros * work.zeros + rates.disk_no_zeros * work.no_zeros
    if work.intervals:  # written in intervals/ and once more in the tables
        size += 2 * rates.disk_interval * work.intervals
    # 8 MiB for plan, manifest, page and log, which hardly depend on the release.
    return int(size) + 8 * MIB


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


def refuse_small_disk(plan: ReleasePlan, spine: Spine, out: Path) -> None:
    """Refuse a disk that is too small for the release.

    The needed space is predicted from the plan and the geography alone, with forty people for each finest geounit.

    Raises:
        StoreError: the free space is less than the predicted size of the release.
    """
    # Predicted for the folder as it will be, with intervals and microdata if the plan asks for them.
    wanted = predict(plan, sizes_of_spine(spine)).disk
    free = free_disk(out)
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
