"""Compare a finished release with the true counts, which declassifies records. The results are NOT PRIVATE."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.api.arguments import AnyPath, Flag, Names, checked
from tallyveil.api.products import (
    EVALUATE,
    require_evaluation,
    require_understood,
    write_page_of_programme,
)
from tallyveil.errors import ConfigError
from tallyveil.files.manifest import ReleaseKind

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.files.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class ReleaseErrors:
    """Errors of a release by geolevel and query.

    Attributes:
        evaluation: The errors, and what they cost.
        page: The page with all of them.
    """

    evaluation: "Evaluation"
    page: Path


@dataclass(frozen=True, slots=True)
class TableErrors:
    """Errors of a table that was drawn as a whole.

    Attributes:
        errors: The errors, by size of the cell.
        page: The page with all of them.
    """

    errors: "pl.DataFrame"
    page: Path


@checked
def evaluate(
    release: AnyPath,
    truth: AnyPath,
    queries: Names | None = None,
    *,
    i_understand_this_is_not_private: Flag = False,
) -> ReleaseErrors | TableErrors:
    """Compare a release with the true counts. The results are NOT PRIVATE.

    Args:
        release: Folder of a finished release. Its folder `evaluation` gets the errors, and its ledger an entry.
        truth: File of the true records that the release was made from.
        queries: Queries; None for those of the release's tables, and all that it measured.
        i_understand_this_is_not_private: Required.
    Raises:
        ConfigError: it is not said that this is understood, or queries are named of a table that was drawn as a whole.
            Nothing was read then.
        StoreError: the folder holds no finished release, or one that is compared in another way.
        TallyveilError: the records are not those of the release.
    Privacy: none. The ledger of the release says that true counts were looked at.
    """
    from tallyveil.products.topdown.page.evaluation import write_evaluation_report
    from tallyveil.products.topdown.page.release import write_report

    require_understood(
        i_understand_this_is_not_private,
        "the errors of a release reveal its true counts: everyone who sees them can learn about single records. If "
        "that is acceptable here, add --i-understand-this-is-not-private.",
    )
    folder = Path(release)
    if require_evaluation(folder, EVALUATE) is ReleaseKind.SUBSPACE:
        if queries is not None:
            raise ConfigError(
                f"{folder} holds a table that was drawn as a whole, whose only counts are those of its cells; "
                "--tables names queries of a release by geolevel. Leave out --tables. Nothing was read.",
                code="bad-flag",
            )
        return _table_errors(folder, Path(truth))
    from tallyveil.products.topdown.run.evaluate import evaluate_release

    write_report(folder)  # a release whose report cannot be made is refused before its ledger gets an entry
    evaluation = evaluate_release(folder, Path(truth), None if queries is None else list(queries))
    page = write_evaluation_report(folder, evaluation)
    write_report(folder)  # its ledger now shows the declassification
    write_page_of_programme(folder)
    return ReleaseErrors(evaluation, page)


def _table_errors(folder: Path, truth: Path) -> TableErrors:
    from tallyveil.products.lattice.page.table import write_table_evaluation, write_table_report
    from tallyveil.products.lattice.run.run import evaluate_table

    # In the same order as above, and for the same reasons.
    write_table_report(folder)
    errors = evaluate_table(folder, truth)
    page = write_table_evaluation(folder, errors)
    write_table_report(folder)
    return TableErrors(errors, page)
