"""Invariants, bounds and agreements of a release in files, and what it takes over from other releases.

With these files, estimates and intervals need only the release folder. Counts that the release keeps and
residents who set limits are read together, from the folder alone.

Layout: `FOLDER/00.parquet` holds the first constraint of its kind in the plan, and so on, at its finest
geolevel. Its columns are `geocode`, `answer`, and the numbers of its kind: `count` of exact answers, or
`lower` and `upper` (null: unbounded) of bounds. Answers at coarser geolevels are sums. A row that says what
an absent row says is left out: 0 for exact answers and lower bounds, and for upper bounds 0 or no bound, as
`missing_upper` in `plan.json` states.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import StoreError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.files.checks import Bounded
from tallyveil.files.histograms import enum_column, read_located
from tallyveil.geography.areas import Hierarchies, StatedGeounits, stated_geounits
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.constraints import GEOUNITS_AT_ONCE, ConstraintTable, constraint_table, filled
from tallyveil.postprocess.other_releases import (
    AgreedCounts,
    ResidentCounts,
    agreement_name,
    read_resident_counts,
    summed_to_root,
    write_residents,
)
from tallyveil.schema.counts import PublicCounts, compress_rows, row_ranges
from tallyveil.schema.nested_queries import representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import inside
from tallyveil.storage.write import write_parquet_chunks

INVARIANTS: Final = "invariants"
BOUNDS: Final = "bounds"
AGREEMENT: Final = "agreement"


@dataclass(frozen=True, slots=True)
class ConstraintKind:
    """What differs between the kinds of constraints in files.

    Attributes:
        folder: Their folder in the release, whose name is their key in `plan.json`, too.
        columns: The numbers of a row: one exact count, or two bounds.
        lacking: What is not known without the file, and what a user can do.
        code: Code of the error if the file is not there.
    """

    folder: str
    columns: tuple[str, ...]
    lacking: str
    code: str = "measurements-missing"

    def path(self, root: Path, number: int) -> Path:
        """File of the constraint with this number in the plan, counted from 0."""
        return inside(root, self.folder, f"{number:02d}.parquet")

    def rows(
        self, root: Path, number: int, query: QueryGroup, areas: Spine, place: int
    ) -> tuple[Integers, Integers, list[Integers]]:
        """Geounit, answer and numbers of every row of a file.

        Raises:
            StoreError: the file is missing, unreadable, or of another geography.
        """
        path, open_ended = self.path(root, number), self.columns[1:]
        if not path.is_file():
            raise StoreError(f"{path} does not exist{self.lacking}", code=self.code)
        geounits, answers, frame = read_located(
            path, query, areas, place, self.columns, self.folder, open_ended=open_ended
        )
        numbers = [frame[name].to_numpy() for name in self.columns if name not in open_ended]
        return (
            geounits,
            answers,
            [*numbers, *(frame[name].fill_null(UNBOUNDED).to_numpy() for name in open_ended)],
        )

    def write(
        self,
        path: Path,
        query: QueryGroup,
        codes: pl.Series,
        stretches: Iterable[tuple[Integers, Integers, Sequence[Integers]]],
        tags: Mapping[str, str],
    ) -> None:
        """Write rows, some geounits at a time.

        Args:
            path: The file.
            query: The query that is constrained.
            codes: Geocode of every geounit.
            stretches: Geounit, answer and numbers of the rows of some geounits.
            tags: Metadata of the file.
        Raises:
            StoreError: the file cannot be written.
        """
        labels = query.labels()

        def frames() -> Iterator[pl.DataFrame]:
            for geounits, answers, numbers in stretches:
                columns = [
                    pl.Series(name, values) for name, values in zip(self.columns, numbers, strict=True)
                ]
                # Only the last of two bounds may be open; the others have no place for nulls.
                # `UNBOUNDED` is a number of ours; in files, no bound is a null that every reader understands.
                columns[1:] = [column.set(column >= UNBOUNDED, None) for column in columns[1:]]
                answer = enum_column("answer", labels, answers)
                yield pl.DataFrame([codes.gather(geounits).alias("geocode"), answer, *columns])

        write_parquet_chunks(path, frames(), tags)


EXACT: Final = ConstraintKind(
    INVARIANTS,
    ("count",),
    ", so the exact answers that the counts must keep are unknown. Restore the file from a copy.",
)
BETWEEN: Final = ConstraintKind(
    BOUNDS,
    ("lower", "upper"),
    ". Either the release was made by a version that did not publish its bounds, or the release is incomplete. Restore "
    "the file. Intervals can also leave out the public bounds with --without-bounds: they stay valid, but are wider.",
    code="bounds-missing",
)
AGREED: Final = ConstraintKind(
    AGREEMENT,
    ("count",),
    ", so the counts that this release agrees with are unknown. Restore the file from a copy.",
)


@dataclass(frozen=True, slots=True)
class StatedConstraint:
    """An invariant or public bounds of a plan, with the place of its geounits.

    Attributes:
        kind: What it is.
        number: Its number among those of its kind.
        name: Its name in checks and errors.
        query: The query that it constrains.
        stated: Its geounits, at the finest of its geolevels; the others follow from it.
        absent_upper: Upper bound of an answer without a row.
        tags: What its file says of it besides the query.
    """

    kind: ConstraintKind
    number: int
    name: str
    query: str
    stated: StatedGeounits
    absent_upper: int
    tags: Mapping[str, str]

    def write(self, root: Path, table: ConstraintTable, metadata: Mapping[str, str]) -> None:
        """Write the answers whose numbers differ from those of an absent row.

        Args:
            root: Release folder.
            table: The compiled constraint.
            metadata: Tags of the file.
        Raises:
            StoreError: the file cannot be written.
        Privacy: bounds are public by declaration; nothing here is computed from records. Exact answers are true counts,
            published because the plan declares them invariant; the ledger names them.
        """
        level, stated = len(table.lower) - 1, self.stated

        def stretches() -> Iterator[tuple[Integers, Integers, list[Integers]]]:
            # Some geounits at a time: all bounds of the blocks of a country do not fit as int64.
            for start in range(0, stated.n_geounits, GEOUNITS_AT_ONCE):
                limits = table.bounds_of(level, start, start + GEOUNITS_AT_ONCE)[: len(self.kind.columns)]
                says_more = np.zeros(limits[0].shape, dtype=np.bool_)
                # What an absent row says anyway is left out, which leaves few rows of most tables.
                for values, absent in zip(limits, (0, self.absent_upper), strict=False):
                    says_more |= values != absent
                geounits, answers = np.nonzero(says_more)
                yield start + geounits, answers, [values[geounits, answers] for values in limits]

        path, codes = self.kind.path(root, self.number), stated.areas.geocodes[stated.place].text
        tags = {**metadata, **self.tags, "query": self.query, "geolevel": stated.geolevel}
        self.kind.write(path, table.query, codes, stretches(), tags)

    def read(self, root: Path, schema: Schema, spine: Spine) -> ConstraintTable:
        """The constraint as it was compiled, at every geolevel; raises StoreError as `ConstraintKind.rows`."""
        query, stated = schema.query(self.query), self.stated
        geounits, answers, numbers = self.kind.rows(root, self.number, query, stated.areas, stated.place)
        # Absent rows get their meaning back here, by the same numbers as in `write`.
        limits = [
            filled(stated.n_geounits, query, geounits, answers, values, absent)
            for values, absent in zip(numbers, (0, self.absent_upper), strict=False)
        ]
        # The two bounds of an invariant are the same array (`ConstraintTable.is_exact`).
        return constraint_table(self.name, query, (limits[0], limits[-1]), stated, spine)


def stated_constraints(plan: Mapping[str, Any], hierarchies: Hierarchies) -> list[StatedConstraint]:
    """The invariants and then the public bounds of a plan, each in its order.

    Args:
        plan: Content of `plan.json`.
        hierarchies: The spine that is measured, and the areas beside it.
    """
    return [*_invariants(plan["invariants"], hierarchies), *stated_bounds(plan["bounds"], hierarchies)]


def read_invariants(
    root: Path, plan: Mapping[str, Any], schema: Schema, hierarchies: Hierarchies
) -> list[Bounded]:
    """The invariants of a release with their published answers; raises StoreError as `ConstraintKind.rows`."""
    items = _invariants(plan["invariants"], hierarchies)
    return [item.read(root, schema, hierarchies.spine).promise for item in items]


def _invariants(items: Iterable[Mapping[str, Any]], hierarchies: Hierarchies) -> Iterator[StatedConstraint]:
    for number, item in enumerate(items):
        query, stated = item["query"], stated_invariant(hierarchies, item["query"], item["geolevels"])
        yield StatedConstraint(EXACT, number, invariant_name(query), query, stated, 0, {})


def stated_bounds(items: Iterable[Mapping[str, Any]], hierarchies: Hierarchies) -> Iterator[StatedConstraint]:
    """Public bounds by their entries in `plan.json`."""
    for number, item in enumerate(items):
        name, query = item["name"], item["query"]
        stated = stated_geounits(hierarchies, item["geolevel"], f"'{name}', bounds on '{query}',")
        # A plan that states no bound for missing rows means that they are unbounded.
        absent_upper = UNBOUNDED if item["missing_upper"] is None else int(item["missing_upper"])
        yield StatedConstraint(BETWEEN, number, name, query, stated, absent_upper, {"bounds": name})


def invariant_name(query: str) -> str:
    """Name of an invariant's constraint in checks and errors."""
    return f"invariant {query}"


def stated_invariant(hierarchies: Hierarchies, query: str, geolevels: Sequence[str]) -> StatedGeounits:
    """Where an invariant's geounits are on the spine, at the finest of its geolevels; the others follow from it."""
    each = [stated_geounits(hierarchies, name, f"the invariant on '{query}'") for name in geolevels]
    # The finest geolevel has most geounits; the exact sums above it follow, so one file holds all.
    return max(each, key=lambda stated: (stated.level, stated.n_geounits))


def write_agreement(
    root: Path, number: int, agreed: AgreedCounts, spine: Spine, metadata: Mapping[str, str]
) -> None:
    """Write the counts above zero of an agreement, which stay sparse; raises StoreError.

    Privacy: the counts were published by the other release.
    """
    finest, query = agreed.counts[-1], agreed.query

    def stretches() -> Iterator[tuple[Integers, Integers, list[Integers]]]:
        for start, stop in row_ranges(finest.offsets):
            rows, cells, persons = finest.rows(start, stop)
            yield start + rows, query.answers_of(cells), [persons]

    tags = {**metadata, "query": query.name, "geolevel": finest.geolevel}
    codes = spine.geocodes[spine.finest].text
    AGREED.write(AGREED.path(root, number), query, codes, stretches(), tags)


def read_agreed_counts(
    root: Path, number: int, item: Mapping[str, Any], schema: Schema, spine: Spine
) -> AgreedCounts:
    """Published counts of an agreement at every geolevel; `item` is its entry of `plan.json`.

    Raises:
        StoreError: the file is missing, unreadable, or of another geography.
    """
    query = schema.query(item["query"])
    rows, answers, (persons,) = AGREED.rows(root, number, query, spine, spine.finest)
    offsets, cells, counts = compress_rows(
        spine.n_geounits(spine.finest), rows, representative_cells(query, answers), persons
    )
    finest = PublicCounts(spine.geolevels[-1], offsets, cells, counts)
    return AgreedCounts(agreement_name(item["name"]), query, summed_to_root(finest, spine, schema.size))


@dataclass(frozen=True, slots=True, eq=False)
class TakenOver:
    """Published counts of finished releases.

    Attributes:
        agreed: Counts that the release keeps exactly, in the order of the plan.
        residents: People who live in the units that the release counts, in the order of the plan.
    """

    agreed: tuple[AgreedCounts, ...] = ()
    residents: tuple[ResidentCounts, ...] = ()

    def digests(self) -> list[bytes]:
        """SHA-256 of the counts of each."""
        return [*(counts.digest() for counts in self.agreed), *(counts.digest() for counts in self.residents)]

    def write(self, root: Path, spine: Spine, tags: Mapping[str, str]) -> None:
        """Write everything into a release folder; raises StoreError.

        Privacy: the counts were published by other releases.
        """
        for number, counts in enumerate(self.agreed):
            write_agreement(root, number, counts, spine, tags)
        for number, residents in enumerate(self.residents):
            write_residents(root, number, residents, spine, tags)


def read_kept(root: Path, plan: Mapping[str, Any], schema: Schema, spine: Spine) -> TakenOver:
    """What a release folder holds of other releases.

    Args:
        root: Release folder.
        plan: Content of its `plan.json`.
        schema: The universe.
        spine: The hierarchy.
    Raises:
        StoreError: a file is missing, unreadable, or of another geography.
    """
    agreed, residents = (enumerate(plan.get(key, ())) for key in ("agreement", "residents"))
    return TakenOver(
        tuple(read_agreed_counts(root, number, item, schema, spine) for number, item in agreed),
        tuple(read_resident_counts(root, number, item, spine) for number, item in residents),
    )
