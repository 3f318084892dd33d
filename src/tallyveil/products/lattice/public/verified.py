"""Derives again what a finished release of one table says of its plan, its guarantee, its noise and its tables."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import scipy.sparse as sp

from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import IntegerSubspaceGaussian, IntegerSubspaceLaplace, Neighbours
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.accounting.numbers import at_most
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.arrays import Integers
from tallyveil.declared import validated
from tallyveil.files.finished import PLAN, require_fits
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed, read_listed_table
from tallyveil.products.lattice.public.plan import (
    CONSTRAINTS,
    StatedSubspacePlan,
    SubspacePlan,
    TableInput,
    constraint_table,
    margins_of,
    noise_of,
)
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.read import collect, read_text, scan_parquet
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm
from tallyveil.subspace.noise_plan import (
    CONFIDENCE,
    LEVEL,
    ErrorMargins,
    NoisePlan,
    error_margins,
    guarantee_record,
    noise_record,
)
from tallyveil.subspace.nonnegative import Outputs
from tallyveil.subspace.table import TableConstraints, cell_labels

TABLE, TABLE_CSV, SUMS, SUMS_CSV = "table.parquet", "table.csv", "sums.parquet", "sums.csv"
DRAWS: Final = "draws.parquet"
UNBIASED: Final = "noisy"
"""Column of the counts from which the nearest table without negative counts was made. They are unbiased."""


def names_of_cells(schema: Schema) -> dict[str, list[str]]:
    """One column for each attribute: the level of every cell of the table."""
    labels = cell_labels(schema)
    return {name: [label[name] for label in labels] for name in schema.attribute_names}


def margins_record(margins: ErrorMargins | None) -> JsonObject | None:
    """What a manifest says of margins of error."""
    if margins is None:
        return None
    return {"level": str(LEVEL), "confidence": str(CONFIDENCE), "draws": margins.draws}


def table_checks(
    root: Path,
    plan: SubspacePlan,
    published: ConstraintSystem,
    lattice: Lattice,
    is_exact: Callable[[Integers], bool],
) -> dict[str, bool]:
    """Whether the written files keep what a release of one table promises, by promise.

    Args:
        root: Release folder.
        plan: The plan.
        published: Its published sums.
        lattice: The lattice of its noise.
        is_exact: Whether counts of the cells keep the invariants; only a run, which has the true table, can see it.
    Raises:
        StoreError: a file cannot be read.
    """
    system = plan.constraints.system
    written = collect(scan_parquet(root / TABLE), root / TABLE, "table")
    names = names_of_cells(plan.schema)
    # A plan that was changed may have other attributes than the table.
    whole = written.columns[: len(names)] == list(names) and written.select(*names).equals(
        pl.DataFrame(names)
    )
    sums = collect(scan_parquet(root / SUMS), root / SUMS, "sums")
    passed = {
        "every cell of the table is there once": whole,
        f"all {system.n_constraints} invariants are exact": whole and is_exact(written["count"].to_numpy()),
        # Sums are recomputed from the published table, not from the noise, so that both files agree.
        "the published sums are those of the published table": whole
        and sums["sum"].to_list() == list(published.names)
        and np.array_equal(published.totals(written["count"].to_numpy()), sums["count"].to_numpy()),
    }
    if plan.outputs is not Outputs.FREE:
        passed["no count is negative"] = bool((written["count"] >= 0).all())
    if plan.largest is not None:
        passed["no count is above the largest"] = bool((written["count"] <= plan.largest).all())
    if (root / DRAWS).exists():
        drawn = collect(scan_parquet(root / DRAWS), root / DRAWS, "draws")
        vectors = drawn["noise"].to_numpy().reshape(-1, plan.schema.size)
        passed["every draw of noise leaves the invariants alone"] = lattice.contains(vectors.T)
    return passed


def plan_of_table(root: Path, manifest: Manifest) -> SubspacePlan | None:
    """The plan of a release, made again from what it states and from the matrix of its exact sums.

    Returns:
        The plan; None if the release has no such matrix, as those of earlier versions.
    Raises:
        StoreError: the plan states what does not follow, or the ledger shows another law or another budget.
    """
    if CONSTRAINTS not in manifest.digests:
        return None
    content: Any = read_listed(root, manifest, PLAN, StatedSubspacePlan)
    stated = validated(StatedSubspacePlan, content)
    declaration, entries = read_ledger(root / LEDGER)
    event = next(entry.event for entry in entries if entry.kind == "spend")
    require_fits(
        isinstance(event, IntegerSubspaceGaussian | IntegerSubspaceLaplace),
        "the ledger shows no noise on a lattice",
    )
    system = _system(read_listed_table(root, manifest, CONSTRAINTS), stated)
    plan = SubspacePlan(
        name=stated.name,
        schema=stated.schema,
        # Where the table lay is no part of a plan.
        table=TableInput(Path(), stated.table.count, stated.table.columns),
        constraints=TableConstraints(system, stated.stated_totals),
        law=_law(event),
        distance=stated.distance,
        neighbours=stated.neighbours,
        declared=stated.declared,
        delta=stated.delta,
        wish=stated.sampler,
        chain=stated.chain,
        outputs=stated.outputs,
        largest=stated.largest,
    )
    require_fits(
        plan.to_mapping() == content,
        "plan.json states what does not follow from the ledger and from the exact sums",
    )
    require_fits(
        (declaration.total, declaration.neighbours) == (plan.declared, plan.neighbours),
        "the ledger declares another budget, or other neighbours, than the plan",
    )
    return plan


def _law(event: Any) -> LatticeLaw:
    if isinstance(event, IntegerSubspaceGaussian):
        return GeneralisedGaussian(event.variance)
    return GeneralisedLaplace(Norm(event.norm), event.epsilon)


def _system(rows: pl.DataFrame, stated: StatedSubspacePlan) -> ConstraintSystem:
    names, size = stated.constraints, stated.schema.size
    inside = rows.filter(
        pl.col("number").is_between(0, len(names) - 1), pl.col("cell").is_between(0, size - 1)
    )
    require_fits(
        inside.height == rows.height, f"{CONSTRAINTS} has a sum or a cell that the plan does not have"
    )
    places = rows["number"].to_numpy(), rows["cell"].to_numpy()
    matrix = sp.coo_matrix((rows["coefficient"].to_numpy(), places), shape=(len(names), size))
    system = ConstraintSystem.from_matrix(matrix.tocsr(), names)
    require_fits(constraint_table(system).equals(rows), f"{CONSTRAINTS} is not as a run writes it")
    return system


def noise_of_table(
    root: Path, manifest: Manifest, *, whole: bool = False
) -> tuple[SubspacePlan, NoisePlan] | None:
    """The plan of a release and how its noise is drawn, made again.

    Args:
        root: Release folder.
        manifest: Its manifest, held to its ledger.
        whole: Whether the distance of a chain from its law is measured again, which may take minutes.
    Returns:
        Both; None if the release has no matrix of exact sums, or a chain drew its noise and is not measured again.
    Raises:
        TallyveilError: as `plan_of_table` and `noise_of`; or the ledger shows another event.
    """
    plan = plan_of_table(root, manifest)
    if plan is None or (not whole and _is_chain(manifest)):
        return None
    event: Any = next(entry.event for entry in read_ledger(root / LEDGER)[1] if entry.kind == "spend")
    noise = noise_of(plan)
    require_fits(plan.event(noise) == event, "the ledger shows another event than the plan gives")
    return plan, noise


def _is_chain(manifest: Manifest) -> bool:
    return "chain" in manifest.body.get("noise", {})


def derived_table(root: Path, manifest: Manifest, *, whole: bool) -> tuple[JsonObject, str]:
    """Hold guarantee, sums, checks, noise and margins to ledger, plan and exact sums.

    Args:
        root: Release folder.
        manifest: Its manifest, held to its ledger.
        whole: Whether margins, and the distance of a chain from its law, are simulated again.
    Returns:
        What the manifest should say of privacy; and why a part was not looked at, empty if all was.
    Raises:
        TallyveilError: a statement does not hold.
    """
    require_table(root, manifest)
    for table, text in ((TABLE, TABLE_CSV), (SUMS, SUMS_CSV)):
        frame = read_listed_table(root, manifest, table)
        same = frame.select(pl.all().cast(pl.String)).equals(_as_text(frame, root / text))
        require_fits(same, f"{text} differs from {table}")
    derived = noise_of_table(root, manifest, whole=whole)
    if derived is None:
        return manifest.privacy, (
            "the lattice and the distance of a chain from its law (--whole measures it again)"
            if _is_chain(manifest)
            else f"the lattice of the noise: releases of earlier versions have no {CONSTRAINTS}"
        )
    plan, noise = derived
    require_fits(manifest.body["name"] == plan.name, "the manifest has another name than the plan")
    require_fits(
        manifest.body["noise"] == json.loads(json.dumps(noise_record(noise))),
        "noise is not what the plan gives",
    )
    passed = table_checks(root, plan, plan.published_sums(), noise.lattice, lambda counts: True)
    require_fits(
        all(passed.values()), f"it does not hold that {[name for name in passed if not passed[name]]}"
    )
    require_fits(manifest.checks == tuple(passed), "the manifest names other checks")
    all_seen = _require_margins(root, manifest, plan, noise, whole=whole)
    return _privacy(plan, noise), "" if all_seen else "margins of error (--whole)"


def _privacy(plan: SubspacePlan, noise: NoisePlan) -> JsonObject:
    return guarantee_record(noise, plan.distance, plan.delta, plan.neighbours)


def _as_text(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    return read_text(path, ",").select(frame.columns)


def _require_margins(
    root: Path, manifest: Manifest, plan: SubspacePlan, noise: NoisePlan, *, whole: bool
) -> bool:
    """Simulate the margins again, where all is asked for; returns whether there is nothing left to look at."""
    stated = manifest.body["margins"]
    if stated is not None and not whole:
        return False
    margins = error_margins(noise, plan.published_sums())
    require_fits(stated == margins_record(margins), "margins are not those of the plan")
    if margins is not None:
        for name, values in ((TABLE, margins.cells), (SUMS, margins.sums)):
            same = np.array_equal(read_listed_table(root, manifest, name)["margin"].to_numpy(), values)
            require_fits(same, f"a margin of {name} is another one")
    return True


def require_table(root: Path, manifest: Manifest) -> None:
    """Hold the guarantee to the event in the ledger, and the published sums to the published cells.

    The plan holds a digest of the matrix of its exact sums. So the sums of every attribute and the total are added up,
    and of the other sums only their names are compared.

    Raises:
        StoreError: a statement does not hold.
    """
    plan: Any = read_listed(root, manifest, PLAN, StatedSubspacePlan)
    require_fits(plan == manifest.body["plan"], "the manifest states another plan than plan.json")
    privacy = manifest.privacy
    for key, stated in (
        ("law", plan["law"]),
        ("invariants", plan["constraints"]),
        ("distance", plan["distance"]),
    ):
        require_fits(privacy.get(key) == stated, f"privacy.{key} is not that of the plan")
    event = next(entry.event for entry in read_ledger(root / LEDGER)[1] if entry.kind == "spend")
    delta = Fraction(plan["delta"])
    least = proved_epsilon(event, Neighbours(plan["neighbours"]), delta).bounds.lower
    require_fits(
        privacy["epsilon"] >= least, f"privacy.epsilon is below {least:.6g}, which the event has at least"
    )
    epsilon: Fraction | float = privacy["epsilon"]
    if plan["budget_unit"] == "rho":
        require_fits(
            privacy.get("rho") == str(manifest.spent.spent), "privacy.rho is not what the ledger shows"
        )
    else:
        # The epsilon at the distance of the plan is what was spent, rounded up to a float. The statement has the exact
        # number, which may end in fewer digits.
        epsilon = manifest.spent.spent
        require_fits(
            privacy["epsilon"] == fraction_bounds(epsilon).upper, "privacy.epsilon is not what was spent"
        )
    said = f"epsilon <= {at_most(epsilon)} "
    require_fits(privacy["statement"].startswith(said), "privacy.statement says another epsilon")
    _require_sums(read_listed_table(root, manifest, TABLE), read_listed_table(root, manifest, SUMS), plan)


def with_table(root: Path, manifest: Manifest) -> Manifest:
    """The manifest with the guarantee that follows from ledger, plan and exact sums; raises as `require_table`.

    Every command and every page that shows the guarantee of a release of one table takes it from here. Where a chain
    drew the noise, and where an earlier version wrote no matrix of the exact sums, the statements are only held to
    ledger and plan.
    """
    require_table(root, manifest)
    derived = noise_of_table(root, manifest)
    return manifest if derived is None else replace(manifest, privacy=_privacy(*derived))


def _require_sums(table: pl.DataFrame, sums: pl.DataFrame, plan: Any) -> None:
    schema = schema_from_mapping(plan["schema"])
    require_fits(table.height == schema.size, "the table lacks a cell")
    system = margins_of(schema)
    names = (*plan["constraints"], *system.names)
    require_fits(tuple(sums["sum"]) == names, "the published sums have other names than the plan gives them")
    totals = system.totals(table["count"].to_numpy())
    same = sums["count"][len(plan["constraints"]) :].to_list() == totals.tolist()
    require_fits(same, "a published sum is not that of the published cells")
