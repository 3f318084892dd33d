"""From the counts of all passes to counts of whole cells of the schema, in the finest geounits.

The last pass may count some levels together that an earlier pass counts by themselves: households by "rented or no
payment", say, where the first pass counts each of the two. The earlier counts then say how many records of a finest
geounit are of each kind. Which records they are is drawn at random, uniformly among all ways to choose them.

Step: the records of a geounit that are counted together get a random number each. In the order of these numbers, the
first ones get the first kind, the next ones the second, and so on. The numbers belong to the geounit and the record, so
that they do not depend on how the work is divided. Their seed is a digest of the counts of the last pass. Everything
here is a function of counts that the release publishes.

Worked case: a block has 2 male and 1 female renters, and 1 of the 3 pays nothing. The random numbers of the three
records are 0.7, 0.2 and 0.5. So the order is second, third, first, and the first one, a man, pays nothing.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.outer import finished_cells, open_pass
from tallyveil.postprocess.passes.groups import groups_of
from tallyveil.schema.counts import ENTRIES_AT_ONCE, PublicCounts, TripletSum, places_in, row_ranges
from tallyveil.schema.nested_queries import common_groups
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

# Random numbers of 8 MiB at once. Numbers belong to geounit and record, so other sizes give the same draws.
RECORDS_AT_ONCE: Final = 1 << 20

Entries = tuple[Integers, Integers, Integers]
"""Rows, numbers and counts."""


def whole_counts(
    schema: Schema, passes: Sequence[QueryGroup], counts: Sequence[PublicCounts]
) -> PublicCounts:
    """Counts of the cells of the schema in the finest geounits.

    Args:
        schema: The universe.
        passes: Cells of each pass.
        counts: Counts of each pass in the finest geounits; each answer by its representative cell.
    """
    last = counts[-1]
    total = TripletSum(last.n_geounits, schema.size)
    number = open_pass(passes)
    choice = None if number is None else Choice.of(passes[-1], passes[number], digest_of_counts(last))
    finished = [
        (group, pass_counts, *finished_cells(schema, group, after))
        for group, pass_counts, after in zip(passes, counts, passes[1:], strict=False)
    ]
    # A quarter, since each entry becomes several arrays here.
    for start, stop in row_ranges(last.offsets, ENTRIES_AT_ONCE // 4):
        parts = [_finished(*pass_parts, start, stop) for pass_parts in finished if len(pass_parts[2])]
        entries = last.rows(start, stop)
        if choice is None or number is None:
            parts.append(entries)
        else:
            parts.append(choice.cells(entries, counts[number].rows(start, stop), start, stop - start))
        rows, cells, persons = (np.concatenate(column) for column in zip(*parts, strict=True))
        total.add(start + rows, cells, persons)
    return PublicCounts(last.geolevel, *total.finish())


def digest_of_counts(counts: PublicCounts) -> bytes:
    """SHA-256 of counts, the seed of what is drawn at random."""
    digest = hashlib.sha256(b"tallyveil which records 1\n")
    for array in (counts.offsets, counts.cells, counts.counts):
        for begin in range(0, len(array), ENTRIES_AT_ONCE):
            digest.update(array[begin : begin + ENTRIES_AT_ONCE].astype("<i8").tobytes())
    return digest.digest()


def _finished(
    group: QueryGroup, counts: PublicCounts, answers: Integers, only: Integers, start: int, stop: int
) -> Entries:
    """Records of some geounits that a pass counts and the next one leaves out, in their only cells.

    Args:
        group: Cells of the pass.
        counts: Its counts.
        answers: Answers that the next pass leaves out, ascending.
        only: The only cell of each.
        start: The first geounit.
        stop: One past the last geounit.
    """
    rows, cells, persons = counts.rows(start, stop)
    pass_answers = group.answers_of(cells)
    place, inside = places_in(answers, pass_answers)
    return rows[inside], only[place[inside]], persons[inside]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Draws which records of the last pass have which level of an earlier one.

    Attributes:
        last: Cells of the last pass.
        earlier: Cells of the earlier pass.
        common: Groups of records that are counted together in both.
        levels: For each attribute, the level of each pair of a group of the last and one of the earlier pass.
        source: Random numbers.
    """

    last: QueryGroup
    earlier: QueryGroup
    common: QueryGroup
    levels: tuple[Integers, ...]
    source: NoiseSource

    @classmethod
    def of(cls, last: QueryGroup, earlier: QueryGroup, seed: bytes) -> "Choice":
        """Draws between two queries, with random numbers that follow from a seed of 32 bytes."""
        levels = []
        for factor, other in zip(last.factors, earlier.factors, strict=True):
            # -1 for pairs that no level has; a record can never be in such a pair.
            pairs = np.full((factor.size, other.size), -1, dtype=np.int64)
            counted = np.flatnonzero(factor.codes >= 0)
            pairs[factor.codes[counted], other.codes[counted]] = counted
            levels.append(pairs)
        return cls(last, earlier, common_groups(last, earlier), tuple(levels), NoiseSource(seed))

    def cells(self, last_entries: Entries, other: Entries, start: int, n_rows: int) -> Entries:
        """The whole cells of the records of some geounits.

        Args:
            last_entries: Rows counted from `start`, cells and counts of the last pass.
            other: The same of the earlier pass.
            start: The first geounit.
            n_rows: Number of geounits.
        """
        groups, others = (groups_of((self.common,), entries[1]) for entries in (last_entries, other))
        in_common = others >= 0
        # Records that the last pass does not count with others are left out of the choice.
        other, others = tuple(array[in_common] for array in other), others[in_common]  # type: ignore[assignment]
        keys, kinds = last_entries[0] * self.common.size + groups, other[0] * self.common.size + others
        order, kind_order = np.argsort(keys, kind="stable"), np.argsort(kinds, kind="stable")
        own_keys, own_cells, own_counts = keys[order], last_entries[1][order], last_entries[2][order]
        kinds, kind_cells, kind_counts = kinds[kind_order], other[1][kind_order], other[2][kind_order]
        # Both passes must count the same people in each group; otherwise the matching below would shift.
        _require_equal_sums(own_keys, own_counts, kinds, kind_counts)
        _, first, several = np.unique(kinds, return_index=True, return_counts=True)
        place = np.searchsorted(kinds[first], own_keys)
        # With one kind only there is nothing to draw.
        mixed = several[place] > 1
        rows = own_keys // self.common.size
        sure = (
            rows[~mixed],
            self._joined(own_cells[~mixed], kind_cells[first[place[~mixed]]]),
            own_counts[~mixed],
        )
        kind_mixed = np.repeat(several > 1, several)
        drawn = self._drawn(
            (own_keys[mixed], own_cells[mixed], own_counts[mixed]),
            (kind_cells[kind_mixed], kind_counts[kind_mixed]),
            start,
        )
        columns = (np.concatenate(pair) for pair in zip(sure, drawn, strict=True))
        rows, cells, persons = columns
        return rows, cells, persons

    def _drawn(self, entries: Entries, kinds: tuple[Integers, Integers], start: int) -> Entries:
        """Records of groups with several kinds, in random order matched with the kinds in their order."""
        keys, cells = (np.repeat(array, entries[2]) for array in entries[:2])
        rows = keys // self.common.size
        # By group first and random number second: this shuffles the records within each group alone.
        order = np.lexsort((self._numbers(rows, start), keys))
        matched = np.repeat(kinds[0], kinds[1])
        return rows[order], self._joined(cells[order], matched), np.ones(len(rows), dtype=np.int64)

    def _numbers(self, rows: Integers, start: int) -> np.ndarray:
        """A random number for each record; `rows` rise. A number depends on the geounit and the place in it alone."""
        draws = np.empty(len(rows), dtype=np.uint64)
        geounits, first, sizes = np.unique(rows, return_index=True, return_counts=True)
        for some in _of_similar_sizes(sizes):
            width = int(sizes[some].max())
            numbers = self.source.numbers(0, 0, start + geounits[some], 0, width)
            inside = np.arange(width) < sizes[some][:, None]
            draws[(first[some][:, None] + np.arange(width))[inside]] = numbers[inside]
        return draws

    def _joined(self, cells: Integers, kinds: Integers) -> Integers:
        """The cell that lies in an answer of the last pass and in one of the earlier pass."""
        joined = np.zeros(len(cells), dtype=np.int64)
        # Mixed-radix digits of a cell, attribute by attribute, as the schema numbers cells.
        stride = self.last.n_cells
        for factor, other, levels in zip(self.last.factors, self.earlier.factors, self.levels, strict=True):
            stride //= factor.n_levels
            level = levels[
                factor.codes[cells // stride % factor.n_levels],
                other.codes[kinds // stride % factor.n_levels],
            ]
            joined = joined * factor.n_levels + level
        return joined


def _of_similar_sizes(sizes: Integers) -> Iterator[Integers]:
    """Numbers of rows, some at a time, whose sizes differ by less than a factor of two."""
    # Rows of similar sizes together, so that the rectangle of numbers is at least half full.
    classes = np.frexp(sizes.astype(np.float64))[1]
    for size_class in np.unique(classes):
        rows = np.flatnonzero(classes == size_class)
        step = max(1, RECORDS_AT_ONCE >> int(size_class))
        for begin in range(0, len(rows), step):
            yield rows[begin : begin + step]


def _require_equal_sums(keys: Integers, counts: Integers, kinds: Integers, kind_counts: Integers) -> None:
    """Require that both passes count the same number of records together; raises SolverError."""
    names, first = np.unique(keys, return_index=True)
    others, second = np.unique(kinds, return_index=True)
    # reduceat on an empty array is undefined.
    sums = np.add.reduceat(counts, first) if len(first) else counts[:0]
    other_sums = np.add.reduceat(kind_counts, second) if len(second) else kind_counts[:0]
    if not (np.array_equal(names, others) and np.array_equal(sums, other_sums)):
        raise SolverError(
            "two outer passes count different numbers of the same records in a finest geounit. Nothing was published; "
            "please report this.",
            code="check-failed",
        )
