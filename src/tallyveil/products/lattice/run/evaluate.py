"""Compare a finished release of one table with its true counts. This job declassifies records."""

from fractions import Fraction
from pathlib import Path

import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import Declaration
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.errors import StoreError
from tallyveil.files.declassified import mark_declassified
from tallyveil.files.evaluation.store import write_errors
from tallyveil.files.evaluation.table_errors import table_errors
from tallyveil.files.finished import LEDGER
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest_files import read_listed, read_listed_table, read_manifest
from tallyveil.products.lattice.confidential import declassify_table
from tallyveil.products.lattice.public.plan import StatedSubspacePlan
from tallyveil.products.lattice.run.run import TABLE
from tallyveil.runs.folder_state import PLAN
from tallyveil.schema.schema import schema_from_mapping


def evaluate_table(root: Path, truth: Path) -> pl.DataFrame:
    """Errors of a released table against the true counts, by size class.

    Args:
        root: Folder of a finished release.
        truth: The true table, with the columns that the release was made from.
    Returns:
        The table of `table_errors`. It is also written to `evaluation` in the release.
    Raises:
        StoreError: the folder holds no finished release of a table.
        SchemaError, ConfigError: the table does not fit the release.
    Privacy: none. Before counts are compared, the ledger of the release gets a non-private event.
    """
    manifest = read_manifest(root, ReleaseKind.SUBSPACE)
    plan = read_listed(root, manifest, PLAN, StatedSubspacePlan)
    schema, released = schema_from_mapping(plan["schema"]), read_listed_table(root, manifest, TABLE)
    # Looked at before the ledger is opened: a damaged release must not cost a declassification.
    if released.height != schema.size or "count" not in released.columns:
        raise StoreError(
            f"{root / TABLE} is damaged: it does not have the cells of the release. Restore it from a copy of the "
            "release. Nothing was read or declassified.",
            code="release-damaged",
        )
    declaration = Declaration(plan["budget_unit"], Fraction(plan["declared"]), Neighbours(plan["neighbours"]))
    with Ledger(root / LEDGER, declaration, manifest.run) as ledger:
        counts = declassify_table(
            truth,
            count=plan["table"]["count"],
            columns=plan["table"]["columns"],
            schema=schema,
            ledger=ledger,
            reason="true counts compared with the release; the results reveal them",
        )
        # In the manifest before an error is computed, so that no report comes without the mark.
        mark_declassified(root, ledger.entries)
    errors = table_errors(released, counts)
    write_errors(root, {"errors-table": errors}, {"run": manifest.run})
    return errors
