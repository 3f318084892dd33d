"""Derives again what a finished release of one table says of its guarantee and of its sums."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.numbers import at_most
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.files.finished import LEDGER, PLAN, require_fits
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed, read_listed_table
from tallyveil.products.lattice.public.plan import StatedSubspacePlan, margins_of
from tallyveil.schema.schema import schema_from_mapping

TABLE, SUMS = "table.parquet", "sums.parquet"


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
    if plan["budget_unit"] == "rho":
        require_fits(
            privacy.get("rho") == str(manifest.spent.spent), "privacy.rho is not what the ledger shows"
        )
    else:
        # The epsilon at the distance of the plan is what was spent.
        require_fits(
            privacy["epsilon"] >= float(manifest.spent.spent), "privacy.epsilon is below what was spent"
        )
    said = f"epsilon <= {at_most(privacy['epsilon'])} "
    require_fits(privacy["statement"].startswith(said), "privacy.statement says another epsilon")
    _require_sums(read_listed_table(root, manifest, TABLE), read_listed_table(root, manifest, SUMS), plan)


def with_table(root: Path, manifest: Manifest) -> Manifest:
    """The manifest, whose statements are held to ledger, plan and table; raises as `require_table`.

    Every command and every page that shows the guarantee of a release of one table takes it from here.
    """
    require_table(root, manifest)
    return manifest


def _require_sums(table: pl.DataFrame, sums: pl.DataFrame, plan: Any) -> None:
    schema = schema_from_mapping(plan["schema"])
    require_fits(table.height == schema.size, "the table lacks a cell")
    system = margins_of(schema)
    names = (*plan["constraints"], *system.names)
    require_fits(tuple(sums["sum"]) == names, "the published sums have other names than the plan gives them")
    totals = system.totals(table["count"].to_numpy())
    same = sums["count"][len(plan["constraints"]) :].to_list() == totals.tolist()
    require_fits(same, "a published sum is not that of the published cells")
