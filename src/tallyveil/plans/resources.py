"""Predict the memory, the time of each stage and the disk space of a run, from the plan and public sizes alone.

No record is read. The rates were measured in runs on two cores of a 2020s server and rounded up: Rhode
Island (25,181 blocks, 1.05 million people), a Pennsylvania-size state (421,545 blocks, 12.7 million people) and a
US-size country (8 million blocks, 330 million people).
"""

from dataclasses import dataclass
from typing import Final

from tallyveil.errors import ConfigError
from tallyveil.files.tables import has_zeros
from tallyveil.plans.estimating import TREE_VALUES
from tallyveil.plans.machine import in_gib, machine_memory
from tallyveil.plans.outer_resources import (
    FILLED_IN_PASSES,
    PASS_RATES,
    largest_family_bytes,
    largest_lift_bytes,
    pass_seconds,
)
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.sizes import FILLED_CELLS, Sizes, filled_cells

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
    swept, apart = _swept(plan), plan.estimating.tables_apart
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
        undetermined.append(0 if detailed else n * support * len(plan.estimating.estimation_of(level).passes))
        # A geounit of n people fills at most n cells, and at least one.
        support = min(plan.schema.size, max(1, sizes.people // n))
    return tuple(undetermined)


def _values_written(plan: ReleasePlan, sizes: Sizes, entries: tuple[int, ...]) -> tuple[int, ...]:
    """Number of noisy values that are written at each geolevel."""
    values = []
    for number, (level, n) in enumerate(zip(plan.geolevels, sizes.geounits, strict=True)):
        written = plan.estimating.written(level, n)
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
    if not plan.estimating.uses_tree:
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
