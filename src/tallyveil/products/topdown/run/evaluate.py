"""Compare a finished TopDown release with the true counts. This job declassifies records."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import LEDGER, Declaration
from tallyveil.budget.guarantees import TOGETHER, strategy_parameters
from tallyveil.confidential.declassify import read_truth
from tallyveil.files.declassified import mark_declassified, require_markable
from tallyveil.files.evaluation import Evaluation, error_metrics, find_artefacts, write_evaluation
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import GEOGRAPHY, read_areas, read_geography
from tallyveil.files.histograms import HISTOGRAM, read_histogram, tabulated
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_unchanged_files
from tallyveil.geography.areas import Hierarchies
from tallyveil.plans.fitting import stated_plan
from tallyveil.postprocess.constraint_files import INVARIANTS, read_invariants


def evaluate_release(root: Path, truth: Path, tables: Sequence[str] | None = None) -> Evaluation:
    """Errors of a release against the true counts, by geolevel, query and size class, and its known artefacts.

    The geolevels are those of the original geography, as in the tables, and those that the steps of the spine added.
    The families of off-spine entities follow, under their names.

    Args:
        root: Folder of a finished release.
        truth: The true records, with the columns that the release was made from.
        tables: Queries to compare; None for those of the release's tables and all that it measured.
    Returns:
        The tables of `error_metrics` and `find_artefacts`. They are also written to `evaluation` in the release.
    Raises:
        StoreError: the folder holds no finished release, or a file of it was changed.
        SchemaError, GeographyError, ConfigError, ConstraintError: the records do not fit the release, or contradict an
            invariant of it, or a query is unknown. Nothing was entered into the ledger then.
    Privacy: none. Before records are compared, the ledger of the release gets a non-private event.
    """
    manifest = read_manifest(root, ReleaseKind.TOPDOWN)
    require_unchanged_files(root, manifest, {GEOGRAPHY, HISTOGRAM, INVARIANTS})
    require_markable(root, manifest)
    plan = manifest.body["plan"]
    stated = stated_plan(root / MANIFEST, plan)
    parameters = tuple(strategy_parameters(stated.strategy, _spent(plan, manifest.privacy)))
    schema = stated.schema
    measured = stated.strategy.every_query
    queries = list(dict.fromkeys([*stated.tables, *measured] if tables is None else tables))
    # Unknown queries fail here, before the ledger says that records were compared.
    for query in queries:
        schema.query(query)
    spine = read_geography(root)
    replaced, families = read_areas(root, spine)
    known = Hierarchies(spine, spine, families, replaced)
    # The whole release is read before the ledger says that records were compared with it.
    estimates = [read_histogram(root, geolevel, schema, spine) for geolevel in spine.geolevels]
    exact = read_invariants(root, plan, schema, known)
    declaration = Declaration(plan["budget_unit"], Fraction(plan["declared"]), Neighbours(plan["neighbours"]))
    with Ledger(root / LEDGER, declaration, manifest.run) as ledger:
        truths = read_truth(
            truth,
            **stated.records.counting,
            schema=schema,
            spine=spine,
            exact=exact,
            reason="true counts compared with the release; the results reveal them",
        ).declassified(ledger)
        # In the manifest as well, before any error is computed, so that no report can hide it.
        mark_declassified(root, ledger.entries)
    names = [family.name for family in families]
    pairs = zip(
        tabulated(known, estimates, names, schema.size),
        tabulated(known, truths, names, schema.size),
        strict=True,
    )
    errors, artefacts = [], []
    for (areas, released), (_, true) in pairs:
        errors.append(error_metrics(areas, schema, queries, [released], [true]))
        artefacts.append(find_artefacts(schema, queries, released, true))
    evaluation = Evaluation(
        pl.concat(errors),
        pl.concat(artefacts),
        schema.unit,
        spine.geolevels[-1],
        parameters,
    )
    write_evaluation(root, evaluation, {"run": manifest.run})
    return evaluation


def _spent(plan: Mapping[str, Any], privacy: Mapping[str, Any]) -> dict[str, Fraction]:
    """What the whole release cost, and each geolevel by the manifest's statement, which knows what was bypassed."""
    costs = {level["geolevel"]: Fraction(level["spent"]) for level in privacy["exact"]["geolevels"]}
    return {**costs, TOGETHER: Fraction(plan["spent"])}
