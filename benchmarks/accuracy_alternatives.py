"""The alternatives that `accuracy.py` compares releases with, and the made-up state they all work on.

They are for that comparison only: nothing here is private or fit to be published.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from scipy import linalg, sparse

from tallyveil.api.beginning import write_country
from tallyveil.budget.allocation import allocation_of
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.measure import Measurer
from tallyveil.geography.spine import GeounitShares, Spine
from tallyveil.measurements.answers import MeasurementSource
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.schema import Schema

FACILITY = "hhgq"
CROSSED = "votingage*hispanic*cenrace"
ROWS_PER_CHUNK = 2048
CONVERGED = 1e-9
MAX_STEPS = 2000

Errors = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
"""By geolevel: error of each geounit's total, and L1 error of its cells and of its crossed answers."""


@dataclass(frozen=True)
class Facilities:
    """Which facility types a geounit has: rows of all geolevels share their patterns."""

    patterns: np.ndarray  # (n_patterns, n_types), bool, distinct
    pattern: tuple[np.ndarray, ...]  # by level, (n_geounits,): the row of `patterns`
    lower: np.ndarray  # (n_blocks, n_types): persons there must be
    cells: tuple[np.ndarray, ...]  # by pattern: cells that may hold somebody


@dataclass(frozen=True)
class World:
    """The made-up state, its truth and what is public about it."""

    plan: ReleasePlan
    spine: Spine
    histograms: tuple[ConfidentialHistogram, ...]
    truth: tuple[sparse.csr_matrix, ...]  # by level, (n_geounits, n_cells)
    crossed: sparse.csr_matrix  # (n_cells, n_answers)
    facilities: Facilities

    @property
    def schema(self) -> Schema:
        return self.plan.schema


def make_world(counts: Path, preset: str, folder: Path) -> World:
    """Make the population up and read it back, with the allocation of a preset."""
    write_country(folder, blocks=None, schema="pl94-persons", like=counts, seed=1)
    release = folder / "release.toml"
    text = release.read_text()
    there = 'preset = "redistricting-state-rooted"'
    if there not in text:
        raise RuntimeError(f"the release file of made-up populations has no line {there}")
    release.write_text(text.replace(there, f'preset = "{preset}"'))
    plan = load_plan(release)
    spine = read_spine(plan.geography)
    histograms = read_histograms(plan, spine)
    group = plan.query(CROSSED)
    answers = group.answers_of(np.arange(plan.schema.size))
    crossed = sparse.csr_matrix((np.ones(len(answers)), (np.arange(len(answers)), answers)))
    truth = tuple(matrix_of(histogram, plan.schema.size) for histogram in histograms)
    return World(plan, spine, histograms, truth, crossed, read_facilities(plan, spine))


def matrix_of(counts: ConfidentialHistogram | PublicCounts, n_cells: int) -> sparse.csr_matrix:
    """Counts of a geolevel as a sparse matrix of geounits by cells."""
    values = counts.counts.astype(np.float64)
    return sparse.csr_matrix((values, counts.cells, counts.offsets), shape=(counts.n_geounits, n_cells))


def read_facilities(plan: ReleasePlan, spine: Spine) -> Facilities:
    """The facility table as one row a block, and what it says of the geolevels above."""
    (bounds,) = plan.bounds
    group, table = plan.query(FACILITY), pl.read_parquet(bounds.path)
    rows = spine.locate(spine.finest, table["geocode"].to_numpy())
    types = group.answers_from_labels({FACILITY: table[FACILITY].cast(pl.String).to_list()}, table.height)
    present = np.zeros((spine.n_geounits(spine.finest), group.size), dtype=bool)
    lower = np.zeros(present.shape)
    present[rows, types], lower[rows, types] = True, table["lower"].to_numpy()
    by_level = [
        np.maximum.reduceat(present, spine.finest_offsets(level)[:-1], axis=0)
        for level in range(spine.n_levels)
    ]
    patterns, index = np.unique(np.concatenate(by_level), axis=0, return_inverse=True)
    cells = np.arange(plan.schema.size)
    cells = cells[plan.schema.possible(cells)]
    return Facilities(
        patterns=patterns,
        pattern=tuple(np.split(index.reshape(-1), np.cumsum([len(numbers) for numbers in by_level])[:-1])),
        lower=lower,
        cells=tuple(cells[allowed[group.answers_of(cells)]] for allowed in patterns),
    )


def errors_of(world: World, error: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Error of totals, L1 of cells and of crossed answers, from the errors of cells; one a geounit."""
    total, cells = error.sum(axis=1), abs(error).sum(axis=1)
    crossed = abs(error @ world.crossed).sum(axis=1)
    total, cells, crossed = (np.asarray(sums).reshape(-1) for sums in (total, cells, crossed))
    return total, cells, crossed


@dataclass(frozen=True)
class Normal:
    """Normal equations of one geolevel: H and, block of geounits by block of geounits, the right-hand sides."""

    hessian: np.ndarray  # (n_cells, n_cells)
    right: Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]  # yields geounits and (len, n_cells)


def normal_equations(world: World, source: MeasurementSource, geolevel: str, queries: list[str]) -> Normal:
    """Everything a geolevel's measurements say of the cells, for all geounits."""
    n_cells, level = world.schema.size, world.spine.level_index(geolevel)
    groups = [world.schema.query(name) for name in queries]
    labels = [group.answers_of(np.arange(n_cells)) for group in groups]
    first = [source.measure(geolevel, g.name, 0, 1, np.arange(g.size)).variances[0] for g in groups]
    hessian = sum((answer[:, None] == answer[None, :]) / v for answer, v in zip(labels, first, strict=True))

    def right() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, world.spine.n_geounits(level), ROWS_PER_CHUNK):
            stop = min(start + ROWS_PER_CHUNK, world.spine.n_geounits(level))
            sums = np.zeros((stop - start, n_cells))
            for group, label, variance in zip(groups, labels, first, strict=True):
                noisy = source.measure(geolevel, group.name, start, stop, np.arange(group.size))
                sums += noisy.values[:, label] / variance
            yield np.arange(start, stop), sums

    return Normal(np.asarray(hessian), right)


def by_pattern(pattern: np.ndarray, geounits: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each pattern among some geounits, with the places of those that have it."""
    for kind in np.unique(pattern[geounits]):
        yield int(kind), np.flatnonzero(pattern[geounits] == kind)


def signed(world: World, source: MeasurementSource) -> Errors:
    """Top-down generalised least squares with family sums, in closed form: nothing keeps a count above zero."""
    errors: Errors = {}
    above = np.zeros((0, world.schema.size))
    for level, name in enumerate(world.spine.geolevels):
        normal = normal_equations(world, source, name, list(world.plan.strategy.queries(name)))
        inverse = {
            kind: linalg.inv(normal.hessian[np.ix_(cells, cells)])
            for kind, cells in enumerate(world.facilities.cells)
            if kind in world.facilities.pattern[level] and len(cells)
        }
        estimates = unconstrained(world, level, normal, inverse)
        root = level == 0
        above = (
            adjusted_root(world, estimates, inverse)
            if root
            else adjusted(world, level, estimates, above, inverse)
        )
        errors[name] = errors_of(world, sparse.csr_matrix(above - world.truth[level]))
    return errors


def unconstrained(world: World, level: int, normal: Normal, inverse: dict[int, np.ndarray]) -> np.ndarray:
    """What each geounit's own measurements say, shape (n_geounits, n_cells)."""
    pattern = world.facilities.pattern[level]
    estimates = np.zeros((len(pattern), world.schema.size))
    for geounits, right in normal.right():
        for kind, places in by_pattern(pattern, geounits):
            if kind in inverse:
                cells = world.facilities.cells[kind]
                estimates[np.ix_(geounits[places], cells)] = right[np.ix_(places, cells)] @ inverse[kind]
    return estimates


def adjusted_root(world: World, estimates: np.ndarray, inverse: dict[int, np.ndarray]) -> np.ndarray:
    """The roots, moved to their published totals with the least loss."""
    fitted = estimates.copy()
    for root, kind in enumerate(world.facilities.pattern[0]):
        cells, direction = world.facilities.cells[kind], inverse[kind].sum(axis=1)
        missing = world.truth[0][root].sum() - estimates[root].sum()
        fitted[root, cells] += direction * missing / direction.sum()
    return fitted


def adjusted(
    world: World, level: int, estimates: np.ndarray, above: np.ndarray, inverse: dict[int, np.ndarray]
) -> np.ndarray:
    """The children of every parent, moved to add up to it in every cell with the least loss, in place."""
    offsets = world.spine.child_offsets[level - 1]
    for parent, (start, stop) in enumerate(pairwise(offsets)):
        pattern = world.facilities.pattern[level][start:stop]
        support = world.facilities.cells[world.facilities.pattern[level - 1][parent]]
        place = np.full(world.schema.size, -1)
        place[support] = np.arange(len(support))
        gain = np.zeros((len(support), len(support)))
        times = Counter(pattern.tolist())
        for kind in times.keys() & inverse.keys():
            rows = place[world.facilities.cells[kind]]
            gain[np.ix_(rows, rows)] += times[kind] * inverse[kind]
        missing = above[parent, support] - estimates[start:stop][:, support].sum(axis=0)
        multiplier = linalg.solve(gain, missing, assume_a="pos") if len(support) else missing
        for kind in times.keys() & inverse.keys():
            cells = world.facilities.cells[kind]
            step = inverse[kind] @ multiplier[place[cells]]
            estimates[np.ix_(start + np.flatnonzero(pattern == kind), cells)] += step
    return estimates


def bottom_up(world: World, source: MeasurementSource) -> Errors:
    """Each block from its own measurements alone, non-negative and within the facilities' bounds; then sums."""
    finest = world.spine.finest
    name = world.spine.geolevels[finest]
    normal = normal_equations(world, source, name, list(world.plan.strategy.queries(name)))
    pattern = world.facilities.pattern[finest]
    fitted: list[sparse.coo_matrix] = []
    for geounits, right in normal.right():
        for kind, places in by_pattern(pattern, geounits):
            cells, blocks = world.facilities.cells[kind], geounits[places]
            if not len(cells):
                continue
            block = non_negative(
                normal.hessian[np.ix_(cells, cells)],
                right[np.ix_(places, cells)],
                world.schema.query(FACILITY).answers_of(cells),
                world.facilities.lower[blocks],
            )
            row, column = np.nonzero(block)
            shape = world.truth[finest].shape
            fitted.append(sparse.coo_matrix((block[row, column], (blocks[row], cells[column])), shape=shape))
    blocks_fitted = sparse.csr_matrix(sum(fitted[1:], fitted[0]))
    errors = {}
    for level, geolevel in enumerate(world.spine.geolevels):
        starts = world.spine.ancestors(level)
        adder = sparse.csr_matrix((np.ones(len(starts)), (starts, np.arange(len(starts)))))
        errors[geolevel] = errors_of(world, sparse.csr_matrix(adder @ blocks_fitted - world.truth[level]))
    return errors


def non_negative(hessian: np.ndarray, right: np.ndarray, types: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Minimise x H x / 2 - right x over x >= 0 with at least `lower` persons of each type, row by row.

    Accelerated projected gradients for strongly convex functions (Nesterov 2004, scheme 2.2.22); H is well
    conditioned here, because the cells themselves are measured best. Ends when a step moves no cell by 1e-9.
    """
    curvature = linalg.eigvalsh(hessian)
    rate = np.sqrt(curvature[0] / curvature[-1])
    momentum = (1 - rate) / (1 + rate)
    x = ahead = project(right / curvature[-1], types, lower)
    for _ in range(MAX_STEPS):
        stepped = project(ahead - (ahead @ hessian - right) / curvature[-1], types, lower)
        moved = np.abs(stepped - ahead).max()
        x, ahead = stepped, stepped + momentum * (stepped - x)
        if moved < CONVERGED:
            return x
    raise RuntimeError(f"no convergence in {MAX_STEPS} steps")


def project(x: np.ndarray, types: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """The nearest non-negative rows with at least `lower` persons of each type."""
    positive = np.maximum(x, 0)
    for kind in np.unique(types):
        columns = np.flatnonzero(types == kind)
        short = np.flatnonzero(positive[:, columns].sum(axis=1) < lower[:, kind])
        if len(short):
            ordered = -np.sort(-x[np.ix_(short, columns)], axis=1)
            shifts = (np.cumsum(ordered, axis=1) - lower[short, kind][:, None]) / np.arange(
                1, len(columns) + 1
            )
            last = (ordered > shifts).sum(axis=1) - 1
            shift = shifts[np.arange(len(short)), last]
            positive[np.ix_(short, columns)] = np.maximum(x[np.ix_(short, columns)] - shift[:, None], 0)
    return positive


def whole_budget(world: World, key: bytes) -> Measurer:
    """The blocks measured with the budget of all geolevels together."""
    spine = world.spine
    positions = tuple(
        np.full(spine.n_geounits(level), level == spine.finest, dtype=np.int32)
        for level in range(spine.n_levels)
    )
    shares = GeounitShares((Fraction(0), Fraction(1)), positions)
    allocation = allocation_of(world.plan.strategy, spine, shares)
    return Measurer(world.histograms, world.schema, allocation, NoiseSource(key))
