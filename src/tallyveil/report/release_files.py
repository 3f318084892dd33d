"""The published files of one release, read for its report."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import StoreError
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import RESTORE, read_manifest
from tallyveil.plans.release import StatedPlan
from tallyveil.plans.stated import stated_plan
from tallyveil.report.titles import Titles, schema_titles
from tallyveil.schema.schema import Unit
from tallyveil.storage.json_files import read_json_object


@dataclass(frozen=True, slots=True)
class ReleaseFiles:
    """The files of a finished release that its report needs.

    Attributes:
        root: Release folder.
        manifest: Content of `manifest.json`.
        plan: What `plan.json` states.
        declaration: The budget that the ledger declares.
        entries: All later entries of the ledger.
        titles: How its queries are called.
    """

    root: Path
    manifest: Manifest
    plan: StatedPlan
    declaration: Declaration
    entries: tuple[LedgerEntry, ...]
    titles: Titles

    @property
    def geolevels(self) -> tuple[str, ...]:
        """Names of the geolevels, root first."""
        return self.plan.geolevels

    @property
    def strategy(self) -> Strategy:
        """The strategy of the plan."""
        return self.plan.strategy_in_passes

    @property
    def unit(self) -> Unit:
        """The unit of record."""
        return self.titles.unit

    @property
    def queries(self) -> tuple[str, ...]:
        """Every measured query, in the order of the geolevel that measures the most queries."""
        # Queries of the richest geolevel first; the others add what it lacks.
        by_level = sorted((self.strategy.queries(level) for level in self.strategy.geolevels), key=len)
        return tuple(dict.fromkeys(chain.from_iterable(reversed(by_level))))

    @property
    def spent(self) -> Fraction:
        """Exact sum of the costs in the ledger, in the declared unit."""
        return sum((entry.cost for entry in self.entries if entry.cost is not None), Fraction(0))

    @property
    def is_protected(self) -> bool:
        """Whether the noise came from a secret key."""
        return self.manifest.protected


def read_release_files(run_dir: Path) -> ReleaseFiles:
    """Read manifest, plan and ledger of a finished release.

    Raises:
        StoreError: a file is missing or damaged, or the files belong to different releases.
        BudgetError: the plan's shares do not sum to one.
    """
    manifest = read_manifest(run_dir, ReleaseKind.TOPDOWN)
    plan = read_json_object(run_dir / "plan.json", RESTORE)
    # plan.json could have been replaced; the copy in the manifest was sealed with it.
    if manifest.body["plan"] != plan:
        raise StoreError(
            f"plan.json and manifest.json of {run_dir} describe different plans. "
            "Restore the folder as the run left it.",
            code="release-damaged",
        )
    stated = stated_plan(run_dir / "plan.json", plan)
    declaration, entries = read_ledger(run_dir / "ledger.jsonl")
    return ReleaseFiles(run_dir, manifest, stated, declaration, entries, schema_titles(stated.schema))
