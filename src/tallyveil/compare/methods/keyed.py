"""Changes of counts that follow from the count and a cell key: the engine of cell keys and of rounding.

Every record has a random key. The key of a cell is the sum of its records' keys modulo the number of keys. A table says
by how much a count with a key is changed. So the same records give the same published count wherever they are counted
together, and another set of records gives another key.

The keys of the records of one finest geounit and cell are only ever added together here. Their sum is uniform and
independent of all others, so one number is drawn for it instead of one for each record. The law is the same.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tallyveil.arrays import Bools, Floats, IntegerRows, Integers
from tallyveil.compare.inputs import SharedInput, TableName
from tallyveil.compare.published import IMPOSSIBLE, Limits, Published, PublishedTable
from tallyveil.compare.relations import NO_LIMIT


@dataclass(frozen=True, eq=False)
class Perturbation:
    """By how much each count is changed.

    Attributes:
        shifts: Change of a count, by row and cell key; int64, shape (n_rows, n_keys). Row 0 is that of the count 0.
        repeats_from: Counts beyond the last row use the rows from this one on again and again.
        threshold: Changed counts below this number are not shown.
    """

    shifts: IntegerRows
    repeats_from: int
    threshold: int = 0

    @property
    def n_keys(self) -> int:
        """Number of cell keys."""
        return int(self.shifts.shape[1])

    def rows(self, counts: Integers) -> Integers:
        """The row of each count."""
        n_rows = self.shifts.shape[0]
        repeated = self.repeats_from + (counts - self.repeats_from) % (n_rows - self.repeats_from)
        return np.where(counts < n_rows, counts, repeated)

    def changed(self, counts: Integers, keys: Integers) -> PublishedTable:
        """The published counts of cells, from their counts and keys; arrays of one shape."""
        published = counts + self.shifts[self.rows(counts), keys]
        return PublishedTable(published, published < self.threshold if self.threshold else None)

    @cached_property
    def _largest(self) -> int:
        return int(np.abs(self.shifts).max(initial=0))

    @cached_property
    def _shares(self) -> Floats:
        """Share of the keys that change a count of each row by -largest..largest; shape (n_rows, 2 largest + 1)."""
        width = 2 * self._largest + 1
        places = np.arange(self.shifts.shape[0])[:, None] * width + self.shifts + self._largest
        counted = np.bincount(places.ravel(), minlength=self.shifts.shape[0] * width)
        return np.asarray(counted.reshape(-1, width) / self.n_keys)

    @cached_property
    def advantage_of_one(self) -> float:
        """The most that one published count tells of whether a record is in it: the largest total variation distance.

        Of the laws of two counts that differ by 1, over all counts. Counts beyond the last row repeat rows.
        """
        n_rows, width = self._shares.shape
        following = np.append(np.arange(1, n_rows), self.repeats_from)
        laws, next_laws = np.zeros((n_rows, width + 1)), np.zeros((n_rows, width + 1))
        # On one scale: the published count minus the smaller of the two true ones.
        laws[:, :width], next_laws[:, 1:] = self._shares, self._shares[following]
        return float(0.5 * np.abs(laws - next_laws).sum(axis=1).max())

    def log_likelihood(self, name: TableName, true: Integers, published: PublishedTable) -> Floats:
        """As in `Law`: the key is uniform, so the shares of the keys are the probabilities."""
        possible = true >= 0
        rows = self.rows(np.maximum(true, 0))
        shift = published.counts - true
        inside = np.abs(shift) <= self._largest
        share = np.where(
            inside, self._shares[rows, np.clip(shift + self._largest, 0, 2 * self._largest)], 0.0
        )
        if published.hidden is not None:
            below = np.cumsum(self._shares, axis=1)
            # Not shown is whatever is changed to less than the threshold.
            last = np.clip(self.threshold - 1 - true + self._largest, -1, 2 * self._largest)
            unseen = np.where(last >= 0, below[rows, np.maximum(last, 0)], 0.0)
            share = np.where(published.hidden, unseen, share)
        with np.errstate(divide="ignore"):  # log 0 is replaced in the next line
            logs = np.log(share)
        return np.where(possible, np.maximum(logs, IMPOSSIBLE), IMPOSSIBLE)

    def limits(self, name: TableName, published: PublishedTable) -> tuple[Floats, Floats]:
        """As in `Support`: every true count that some key changes to the published one is possible."""
        shift = np.arange(-self._largest, self._largest + 1)
        # The limits follow from the published count alone, and tables have few different ones.
        values, place = np.unique(published.counts, return_inverse=True)
        true = values[:, None] - shift
        possible = (true >= 0) & (self._shares[self.rows(np.maximum(true, 0)), shift + self._largest] > 0)
        low = np.where(possible, true, NO_LIMIT).min(axis=1)[place].reshape(published.counts.shape)
        high = np.where(possible, true, -1.0).max(axis=1)[place].reshape(published.counts.shape)
        if published.hidden is None:
            return low, high
        # What is left out although no count is too small to be shown says nothing.
        least, most = 0, NO_LIMIT
        if self.threshold:
            count = np.arange(self.threshold + self._largest)
            unseen = np.flatnonzero(count + self.shifts[self.rows(count)].min(axis=1) < self.threshold)
            least, most = unseen[0], unseen[-1]
        return np.where(published.hidden, least, low), np.where(published.hidden, most, high)


@dataclass(frozen=True, slots=True, eq=False)
class KeyedQuestions:
    """An office that answers questions about unions of geounits with the same keys as in its tables.

    Attributes:
        perturbation: Its table.
        counts, keys: Of every finest geounit and cell.
        afresh: A generator for offices that draw a new key for every answer; None for those with record keys.
    """

    perturbation: Perturbation
    counts: IntegerRows
    keys: IntegerRows
    afresh: np.random.Generator | None = None

    def answers(self, members: Bools, cell: int) -> PublishedTable:
        """As in `Questions`."""
        wanted = members.astype(np.int64)
        counts, keys = wanted @ self.counts[:, cell], wanted @ self.keys[:, cell]
        n_keys = self.perturbation.n_keys
        if self.afresh is not None:
            keys = self.afresh.integers(n_keys, size=counts.shape)
        return self.perturbation.changed(counts, keys % n_keys)

    def restricted(self, geounits: Integers) -> "KeyedQuestions":
        """As in `Questions`."""
        return KeyedQuestions(self.perturbation, self.counts[geounits], self.keys[geounits], self.afresh)


def record_keys(shared: SharedInput, n_keys: int, generator: np.random.Generator) -> IntegerRows:
    """Sums of the record keys of every finest geounit and cell, modulo the number of keys; 0 where nobody is.

    Records keep their keys from one year to the next. Only counts are known here: where a count is the same in both
    years, its records are assumed to be the same, and so is the sum of their keys. Where it differs, the sum changes.
    """
    keys = generator.integers(n_keys, size=shared.counts.shape)
    if shared.earlier is not None:
        changes = generator.integers(n_keys, size=shared.counts.shape)
        keys = np.where(shared.counts == shared.earlier, keys, (keys + changes) % n_keys)
    return np.where(shared.counts > 0, keys, 0)


def publish_with_keys(
    shared: SharedInput,
    perturbation: Perturbation,
    keys: IntegerRows,
    afresh: np.random.Generator | None = None,
    notes: tuple[str, ...] = (),
) -> Published:
    """Publish every table with changes that follow from counts and keys.

    Args:
        shared: The input.
        perturbation: By how much counts are changed.
        keys: Of `record_keys`.
        afresh: Where given, every published count gets a key of its own from this generator.
        notes: As in `Published`.
    """
    tables: dict[TableName, PublishedTable] = {}
    sums = shared.tables_of(keys)
    for name, true in shared.truth.items():
        drawn = sums[name] if afresh is None else afresh.integers(perturbation.n_keys, size=true.shape)
        tables[name] = perturbation.changed(true, drawn % perturbation.n_keys)
    questions = KeyedQuestions(perturbation, shared.counts, keys, afresh)
    most = f"{perturbation.advantage_of_one:.3f}"
    bound = (
        f"One count alone tells who knows all others in it with an advantage of up to {most} whether a record is in it "
        "(exact, from the table of changes)."
    )
    limits = Limits(shared, tables, perturbation)
    return Published(tables, perturbation, questions, limits=limits, notes=(*notes, bound))
