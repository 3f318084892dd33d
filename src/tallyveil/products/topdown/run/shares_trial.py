"""A trial of better shares: what a model promises beside what releases of made-up records obtain.

The records of the plan are never opened. Others are made up, for the same geography, schema and public bounds. They
are released with the present shares and with the new ones, under test keys, and the released counts are compared with
them.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from scipy import sparse
from scipy.special import stdtrit

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.optimal.aims import Aims
from tallyveil.budget.optimal.choose import OptimalShares
from tallyveil.errors import ConfigError
from tallyveil.files.histograms import read_histogram
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.entities import EntityFamily
from tallyveil.noise.key import insecure_key
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.resources import PEOPLE_PER_GEOUNIT
from tallyveil.postprocess.constraints import bounds_table
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.optimal_shares import areas_of
from tallyveil.products.topdown.run.run import run_release
from tallyveil.schema.counts import widen_limits
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.write import write_parquet
from tallyveil.synthetic.alike import Limits, records_alike

SEED = 39
"""Of the made-up records: they are the same in every trial of a plan, so that anyone obtains the same numbers."""
FEWEST_KEYS = 2
"""Fewest test keys: from one, no standard error follows."""
COVERAGE = 0.95
"""Coverage of the margins of the ratios, of each by itself."""
RECORDS = "records.parquet"
GEOCODE, COUNT = "geocode", "count"


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What releases of made-up records obtain.

    Attributes:
        records: Number of made-up records.
        before: Mean squared error of every aim and target with the present shares, for each key; shape (aims, keys).
        after: The same with the new shares.
    """

    records: int
    before: Floats
    after: Floats

    @property
    def keys(self) -> int:
        """Number of test keys."""
        return int(self.before.shape[1])

    @property
    def deviations(self) -> tuple[Floats, Floats]:
        """Root mean squared errors of every aim, before and after."""
        return np.sqrt(self.before.mean(axis=1)), np.sqrt(self.after.mean(axis=1))

    @property
    def ratios(self) -> Floats:
        """The second of `deviations` divided by the first; 1 where both are 0."""
        return _ratios(self.before, self.after)

    @property
    def mean_ratio(self) -> float:
        """Root mean square of `ratios`."""
        return float(np.sqrt(np.mean(self.ratios**2)))

    @property
    def margins(self) -> Floats:
        """Of `ratios`, each by itself: the half width of an interval that covers 95 %, by Student's distribution.

        The standard error comes from leaving out one key after the other.
        """
        # Jackknife: with r_k the ratio without key k, sqrt((n - 1) var(r_k)) estimates the standard error.
        without = [
            _ratios(np.delete(self.before, key, axis=1), np.delete(self.after, key, axis=1))
            for key in range(self.keys)
        ]
        deviations: Floats = np.sqrt((self.keys - 1) * np.var(without, axis=0))
        return deviations * float(stdtrit(self.keys - 1, 0.5 + COVERAGE / 2))


def try_shares(plan: ReleasePlan, better: OptimalShares, keys: int, records: int | None = None) -> Trial:
    """Release made-up records with the present and with the new shares, and measure the errors of all aims.

    Args:
        plan: The plan, with the present shares. Its records are not opened.
        better: The better shares that were found for it.
        keys: Number of test keys, at least 2. Each makes two releases.
        records: Number of made-up records; None for 40 for each finest geounit.
    Raises:
        ConfigError: there are too few keys, or the release keeps counts of other releases.
        ConstraintError: no made-up records satisfy the public bounds.
        TallyveilError: a release cannot be made, as `run_release`.
    Privacy: no record is opened, and nothing is spent. All noise is from keys that anyone can compute.
    """
    if keys < FEWEST_KEYS:
        raise ConfigError(
            f"a trial of shares got {keys} test key(s), wanted at least {FEWEST_KEYS}: from one, no standard error "
            "follows.",
            code="bad-flag",
        )
    if plan.agreement or plan.residents:
        raise ConfigError(
            "the release keeps counts of other releases ([[agreement]] or residents), which made-up records would "
            "contradict. Try the shares in a release file without them.",
            code="bad-flag",
        )
    with tempfile.TemporaryDirectory(prefix="tallyveil-try-") as folder:
        made_up = _MadeUp.of(plan, Path(folder), records)
        # The new shares may need more than the present ones (targets), so that the trial must be allowed to spend it.
        spent = max(plan.declared, plan.spent - plan.strategy.total + better.strategy.total)
        tried = replace(
            plan,
            records=replace(
                plan.records,
                path=Path(folder) / RECORDS,
                geocode=GEOCODE,
                count=COUNT,
                columns=tuple((name, f"attribute {name}") for name in plan.schema.attribute_names),
                numbers=(),
                missing=(),
            ),
            declared=spent,
            measurements="none",
            # Whatever does not change the estimates is left out: a trial makes two releases for each key.
            microdata=False,
            intervals=None,
            cluster=None,
        )
        # Both strategies are tried with the same keys and records, so that part of the randomness cancels.
        before, after = (
            _errors(tried.with_strategy(strategy), better.aims, made_up, keys, Path(folder))
            for strategy in (better.before, better.strategy)
        )
    return Trial(len(made_up.cells), before, after)


@dataclass(frozen=True, slots=True, eq=False)
class _MadeUp:
    """The geocode of the finest geounit and the cell of every made-up record."""

    geocodes: pl.Series
    cells: Integers

    @classmethod
    def of(cls, plan: ReleasePlan, folder: Path, records: int | None) -> "_MadeUp":
        """Make records up, and write them to a folder."""
        hierarchies, schema = read_hierarchies(plan), plan.schema
        spine = hierarchies.spine
        number = PEOPLE_PER_GEOUNIT * spine.n_geounits(spine.finest) if records is None else records
        generator = np.random.default_rng(SEED)
        geounits, cells = records_alike(schema, spine, _limits(plan, hierarchies), number, generator)
        geocodes = pl.Series(spine.geocodes[spine.finest])[geounits].alias(GEOCODE)
        codes = schema.decode(cells).T
        columns = [
            pl.Series(
                f"attribute {attribute.name}", np.array(attribute.levels, object)[code].tolist(), pl.String
            )
            for attribute, code in zip(schema.attributes, codes, strict=True)
        ]
        frame = pl.DataFrame([geocodes, *columns])
        write_parquet(folder / RECORDS, frame.group_by(pl.all()).len(COUNT).sort(pl.all()), {})
        return cls(geocodes, cells)

    def matrix(self, hierarchies: Hierarchies, n_cells: int) -> sparse.csr_matrix:
        """The counts of every finest geounit and cell."""
        spine = hierarchies.spine
        rows = spine.locate(spine.finest, self.geocodes)
        shape = (spine.n_geounits(spine.finest), n_cells)
        return sparse.csr_matrix((np.ones(len(rows)), (rows, self.cells)), shape=shape)


def _limits(plan: ReleasePlan, hierarchies: Hierarchies) -> list[Limits]:
    limits, spine = [], hierarchies.spine
    for bounds in plan.bounds:
        table = bounds_table(plan, bounds, hierarchies)
        row = spine.ancestors(len(table.lower) - 1)
        row = row if table.groups is None else table.groups[row]
        lower, upper = widen_limits(table.lower[-1]), widen_limits(table.upper[-1])
        limits.append(Limits(table.name, table.query, row, lower, upper))
    return limits


def _errors(plan: ReleasePlan, aims: Aims, made_up: _MadeUp, keys: int, folder: Path) -> Floats:
    """Mean squared errors of releases; shape (aims, keys)."""
    hierarchies = read_hierarchies(plan)
    areas = areas_of(hierarchies, aims)
    truth, spine = made_up.matrix(hierarchies, plan.schema.size), hierarchies.spine
    squares = np.empty((len(aims.named), keys))
    for key in range(keys):
        with tempfile.TemporaryDirectory(dir=folder) as out:
            run_release(plan, Path(out) / "release", test_key=insecure_key(f"trial of shares {key}"))
            counts = read_histogram(Path(out) / "release", spine.geolevels[-1], plan.schema, spine)
        published = sparse.csr_matrix((counts.counts, counts.cells, counts.offsets), shape=truth.shape)
        # Sparse throughout: blocks times cells may not fit into memory. Cells without an error are skipped.
        wrong = (published - truth).tocsc()
        used = np.flatnonzero(np.diff(wrong.indptr))
        for place, (area, query) in enumerate(aims.named):
            group = plan.query(query)
            answers = _members(areas[area], hierarchies) @ (
                wrong[:, used] @ _adding(group.layers, group.size, used)
            )
            squares[place, key] = answers.multiply(answers).sum() / np.prod(answers.shape)
    return squares


def _members(area: str | EntityFamily, hierarchies: Hierarchies) -> sparse.csr_matrix:
    """Which finest geounits are in each geounit of a geolevel, or in each entity that has any."""
    spine = hierarchies.spine
    n_finest = spine.n_geounits(spine.finest)
    if isinstance(area, str):
        offsets, members = spine.finest_offsets(spine.level_index(area)), np.arange(n_finest)
    else:
        sizes = np.diff(area.offsets)
        # Entities without geounits have no error to average, and are left out of the rows.
        offsets, members = np.append(0, np.cumsum(sizes[sizes > 0])), area.members
    return sparse.csr_matrix((np.ones(len(members)), members, offsets), shape=(len(offsets) - 1, n_finest))


def _adding(layers: Sequence[QueryGroup], size: int, cells: Integers) -> sparse.csr_matrix:
    """In which answers of a query each cell counts."""
    adding = sparse.csr_matrix((len(cells), size))
    for layer in layers:
        answer = layer.answers_of(cells)
        counted = np.flatnonzero(answer >= 0)
        adding += sparse.csr_matrix((np.ones(len(counted)), (counted, answer[counted])), shape=adding.shape)
    return adding


def _ratios(before: Floats, after: Floats) -> Floats:
    old, new = before.mean(axis=1), after.mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = np.where((old == 0) & (new == 0), 1.0, np.sqrt(new / old))
    return ratios
