"""One confidential table of counts: read, compared with its owner's statements, and released with lattice noise."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.arrays import Integers
from tallyveil.confidential.declassify import enter_declassified
from tallyveil.confidential.histogram import REDACTED
from tallyveil.errors import ConstraintError, SchemaError, SolverError
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import collect_batches, require_counts, require_levels, scan_table, whole_number
from tallyveil.subspace.constraints import ConstraintSystem, Structure
from tallyveil.subspace.exact.choose_restricted import choose_restricted
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.partial_sums import draw_around
from tallyveil.subspace.exact.sampler import VectorSampler
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedLaplace
from tallyveil.subspace.nonnegative import by_tilted_cells, draw_restricted
from tallyveil.subspace.table import TableConstraints

LARGEST_COUNT = 1 << 40
"""Limit on the absolute value of a count, and on the sum of absolute values of all counts, so that no sum overflows."""

_COUNT = "__count"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConfidentialTable:
    """True counts of every cell. Confidential: never printed, never passed through the wall.

    Attributes:
        counts: int64 [n_cells], in the order of the schema's cells.
    """

    counts: Integers

    def __repr__(self) -> str:
        return f"ConfidentialTable(counts={REDACTED})"

    def digest(self) -> bytes:
        """SHA-256 of the counts."""
        return hashlib.sha256(self.counts.astype("<i8").tobytes()).digest()


def require_table_header(path: Path, columns: Sequence[str]) -> pl.LazyFrame:
    """The table, unread, once it is known to have the columns.

    Raises:
        ConfigError, StoreError: the file or a column is missing, or the file is unreadable.
    Privacy: reads names and types of columns, no row.
    """
    return scan_table(path, list(columns), "table", confidential=True)


def read_confidential_table(
    path: Path, *, count: str | None, columns: Mapping[str, str], schema: Schema
) -> ConfidentialTable:
    """Read a table of counts. Rows of the same cell are added up, and cells without a row are zero.

    Args:
        path: Parquet or CSV file.
        count: Column of integer counts, or None if each row is one record.
        columns: Column of every attribute, by attribute name. Its values are names of levels.
        schema: The cells.
    Raises:
        SchemaError: a value is not a level of its attribute, or counts are missing, fractional, or too large
            (`LARGEST_COUNT`).
        ConfigError, StoreError: the file or a column is missing or unreadable.
    Privacy: messages name only columns and rules, never a value or a number of rows.
    """
    frame = require_table_header(path, [*columns.values(), *([count] if count else [])])
    require_levels(frame, list(columns.values()), path, "table")
    if count is not None:
        require_counts(frame, count, path, "table")
    names = {name: f"__code_{name}" for name in schema.attribute_names}
    coded = [
        pl.col(columns[a.name])
        .cast(pl.String)
        .cast(pl.Enum(list(a.levels)), strict=False)
        .to_physical()
        .alias(names[a.name])
        for a in schema.attributes
    ]
    if count is not None:
        whole = whole_number(count)
        coded.append(pl.when(whole.abs() <= LARGEST_COUNT).then(whole).alias(_COUNT))
    counts = np.zeros(schema.size, dtype=np.int64)
    bad_columns: set[str] = set()
    bad_counts = False
    size = 0
    # All batches are read before an error is raised: its text then depends on no position of a record.
    for batch in collect_batches(frame.select(coded), path, "table"):
        bad_columns |= {name for name, code in names.items() if batch[code].null_count()}
        bad_counts |= count is not None and bool(batch[_COUNT].null_count())
        # After the first bad value nothing more is added up; only the columns to name are collected.
        if not (bad_columns or bad_counts):
            cells = schema.encode(np.stack([batch[code].to_numpy() for code in names.values()], axis=1))
            weights = np.ones(batch.height, np.int64) if count is None else batch[_COUNT].to_numpy()
            pieces = np.array_split(np.abs(weights), (batch.height >> 20) + 1)  # no sum of a piece overflows
            size += sum(int(piece.sum()) for piece in pieces)
            # `size` is a Python integer, so that the test cannot overflow; above the limit nothing is added.
            if size <= LARGEST_COUNT:
                np.add.at(counts, cells, weights)
    if bad_counts or size > LARGEST_COUNT:
        raise SchemaError(
            f"column '{count}' of the table {path} has missing, fractional or too large counts. Wanted integers "
            "whose absolute values add up to at most 2**40. Correct or remove those rows.",
            code="bad-counts",
        )
    if bad_columns:
        listed = ", ".join(f"'{columns[name]}'" for name in schema.attribute_names if name in bad_columns)
        raise SchemaError(
            f"column(s) {listed} of the table {path} have values (or nulls) that are not levels of their attribute. "
            "Recode the column, or add the level to the [[attributes]] of the file.",
            code="unknown-level",
        )
    # Frozen: the same array is digested, measured and compared with what is published.
    counts.setflags(write=False)
    return ConfidentialTable(counts)


def require_summable(table: ConfidentialTable, system: ConstraintSystem) -> None:
    """Refuse a table some of whose sums may overflow 64 bits, with noise added; raises ConstraintError."""
    # |sum| <= (greatest row sum of |coefficients|) x (greatest |count| + noise); 2**62 leaves a factor of two.
    heaviest = int(abs(system.matrix).sum(axis=1).max()) if system.n_constraints else 0
    if heaviest * (int(np.abs(table.counts).max(initial=0)) + LARGEST_COUNT) >= 1 << 62:
        raise ConstraintError(
            "the counts of the table and the coefficients of its constraints are so large that a sum of their "
            "products may overflow 64 bits. Divide the coefficients of a constraint by a common factor, or use "
            "smaller units.",
            code="subspace-constraints",
        )


def check_stated_totals(table: ConfidentialTable, constraints: TableConstraints) -> None:
    """Refuse stated totals that differ from those of the table.

    Raises:
        ConstraintError: some total differs; the message names the stated constraints, but not which one differs or by
            how much. Or the coefficients are so large that sums of the table could overflow once noise is added.
    Privacy: reveals one bit, pass or fail, about totals that are published anyway.
    """
    require_summable(table, constraints.system)
    totals = constraints.system.totals(table.counts)
    # All are compared, and all names are given: which one differs would tell something of the table.
    if any(int(totals[row]) != total for row, total in constraints.stated):
        names = ", ".join(f"'{constraints.system.names[row]}'" for row, _ in constraints.stated[:8])
        raise ConstraintError(
            f"the table does not have the totals that are stated for its constraints ({names}). Correct the totals, "
            "or leave them out: then the totals of the table itself are kept.",
            code="subspace-totals-broken",
        )


def require_within(table: ConfidentialTable, largest: int | None) -> None:
    """Refuse a table with a count below 0 or above the largest: no table within them needs to have its invariants.

    Raises:
        SchemaError: some count is; the message does not say which.
    Privacy: reveals one bit, pass or fail, about a table that is not what its owner says of it.
    """
    if (table.counts < 0).any():
        raise SchemaError(
            "the table has a negative count, but [mechanism] outputs asks for a table without negative counts, which "
            'needs to have the same invariants. Correct the table, or use outputs = "free". Nothing was spent.',
            code="bad-counts",
        )
    if largest is not None and (table.counts > largest).any():
        raise SchemaError(
            f"the table has a count above {largest}, which [table] largest says is the largest that a cell can have. "
            "Correct the table, or give a larger number that is known to the public. Nothing was spent.",
            code="bad-counts",
        )


def restricted_sampler(
    table: ConfidentialTable, lattice: Lattice, law: GeneralisedLaplace, largest: int | None
) -> VectorSampler | None:
    """What draws the restricted law around the true table. It holds the true table: confidential.

    Returns:
        The sampler; None if the law is drawn without it, by tilted cells.
    Raises:
        ConfigError: no exact method draws it.
        BudgetError: epsilon is too small or too large for the sampler.
    Privacy: made before anything is spent. The choice and a refusal depend on the law, on the largest count and on the
        invariants alone. A refusal reveals one bit about the invariants, which are published anyway.
    """
    if by_tilted_cells(law, lattice.structure, largest):
        return None
    return choose_restricted(lattice, law, table.counts, largest).sampler


def restricted_table(
    table: ConfidentialTable,
    address: NoiseAddress,
    structure: Structure,
    law: GeneralisedLaplace,
    sampler: VectorSampler | None,
    largest: int | None,
) -> Integers:
    """A table from the Laplace law around the true table, restricted to tables without negative counts.

    Args:
        table: True counts, within the bounds. Confidential.
        address: Place of the draw in the address space.
        structure: Structure of the invariants.
        law: The law.
        sampler: That of `restricted_sampler`; None if the law is drawn by tilted cells.
        largest: Largest count that a cell can have; None for none.
    Returns:
        int64 [n_cells], with the invariants of the true table.
    Raises:
        SolverError: redraws were stopped, which is part of their law.
    Privacy: 2 epsilon times the distance in the norm of the law, to which the l2 norm adds the delta of a total
        variation of 2**-62 (docs/proofs/integer-subspace.md, section 7). How long the draw takes depends on the counts.
    """
    if sampler is None:
        drawn = draw_restricted(address, table.counts, structure, law.epsilon)
    else:
        drawn = draw_around(address, table.counts, structure, law, sampler, largest)
    drawn.setflags(write=False)
    return drawn


def release_table(table: ConfidentialTable, noise: Integers, system: ConstraintSystem) -> Integers:
    """The table with noise added, after a check that the noise changes no invariant.

    Args:
        table: True counts. Confidential.
        noise: int64 [n_cells].
        system: The invariants.
    Returns:
        int64 [n_cells], possibly negative.
    Raises:
        SolverError: the noise would change an invariant. Then nothing may be published.
    Privacy: as private as the noise. The invariants are exact.
    """
    # Looked at before the addition, without the counts: sums of the noise itself must be zero.
    if system.totals(noise).any():
        raise SolverError(
            "final check failed: the noise changes an invariant. Nothing was published; please report this.",
            code="check-failed",
        )
    noisy = table.counts + noise
    noisy.setflags(write=False)
    return noisy


def keeps_invariants(table: ConfidentialTable, noisy: Integers, system: ConstraintSystem) -> bool:
    """Whether a published table has the invariants of the true table: pass or fail."""
    return bool(np.array_equal(system.totals(noisy), system.totals(table.counts)))


def declassify_table(
    path: Path,
    *,
    count: str | None,
    columns: Mapping[str, str],
    schema: Schema,
    ledger: Ledger,
    reason: str,
    released: Integers,
    exact: ConstraintSystem | None,
) -> Integers:
    """Return the true counts of one table, after recording this in the ledger.

    Args:
        path, count, columns, schema: As in `read_confidential_table`.
        ledger: Ledger of the release. A non-private event is written to it before anything is returned.
        reason: The reason in words, for the ledger.
        released: int64 [n_cells], the counts of a release that the table is compared with.
        exact: The invariants of that release; None where they are not known.
    Returns:
        int64 [n_cells], in the order of the schema's cells.
    Raises:
        SchemaError, ConfigError, StoreError: as in `read_confidential_table`.
        ConstraintError: the table has other invariants than the release. Nothing was entered then.
    Privacy: none. Everything computed from the result must be marked as not private.
    """
    table = read_confidential_table(path, count=count, columns=columns, schema=schema)
    if exact is not None and not keeps_invariants(table, released, exact):
        # All names are given: which sum differs would tell something of the table.
        names = ", ".join(f"'{name}'" for name in exact.names[:8])
        raise ConstraintError(
            f"the table {path} is not the one that the release was made from: it has other sums than the release "
            f"published exactly ({names}). Give the table of this release, and not that of another year or place. "
            "Nothing was entered into the ledger.",
            code="truth-contradicts",
        )
    enter_declassified(ledger, reason)
    return table.counts
