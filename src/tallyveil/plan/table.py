"""What the release of one table with exact invariants will do, as data: decided before the table is opened."""

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.exact import exact_text
from tallyveil.accounting.neighbours import Neighbours
from tallyveil.errors import BudgetError
from tallyveil.storage.json_files import digest_of
from tallyveil.subspace.guarantee import event_of
from tallyveil.subspace.lattice import Lattice, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, LatticeLaw
from tallyveil.subspace.nearest import nearest_tables, protected, require_record
from tallyveil.subspace.noise_plan import ChainSettings, NoisePlan, SamplerWish
from tallyveil.subspace.table import TableConstraints
from tallyveil.universe.schema import Schema

SUBSPACE_FORMAT = 1


@dataclass(frozen=True, slots=True)
class TableInput:
    """Where the confidential table is.

    Attributes:
        path: Parquet or CSV; one row a cell, or one row a record where `count` is None.
        count: Column of whole counts; rows of the same cell add up, cells without a row are zero.
        columns: Column of each attribute, by attribute name.
    """

    path: Path
    count: str | None
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SubspacePlan:
    """The release of one table: its cells, invariants, law and budget.

    Attributes:
        name: Shown in messages and outputs.
        schema: The cells; public, so that a cell nobody is in looks like any other.
        table: The confidential counts.
        constraints: Sums published exactly.
        law: Of the noise.
        distance: Largest distance of two tables to tell apart, in the law's norm; squared for the Gaussian.
        neighbours: Relation that the budget is declared under.
        declared: Most that may be spent: epsilon for Laplace noise, rho for Gaussian noise.
        delta: At which the epsilon of Gaussian noise is stated.
        wish: Which sampler is asked for.
        chain: How a chain is run, where one is.
    """

    name: str
    schema: Schema
    table: TableInput
    constraints: TableConstraints
    law: LatticeLaw
    distance: Fraction
    neighbours: Neighbours
    declared: Fraction
    delta: Fraction
    wish: SamplerWish
    chain: ChainSettings

    def __post_init__(self) -> None:
        require_record(self.law, self.distance, self.neighbours)
        if self.cost > self.declared:
            raise BudgetError(
                f"the mechanism costs {self.budget_unit} = {exact_text(self.cost)} at distance "
                f"{self.distance}, more than the declared {self.budget_unit} = {exact_text(self.declared)}. Use "
                f"more noise, or raise [privacy] {self.budget_unit} if policy allows it; nothing was read."
            )

    @property
    def budget_unit(self) -> Literal["rho", "epsilon"]:
        """Unit of `declared`."""
        return "rho" if isinstance(self.law, GeneralisedGaussian) else "epsilon"

    @property
    def cost(self) -> Fraction:
        """What is spent, in `budget_unit`."""
        if isinstance(self.law, GeneralisedGaussian):
            return self.distance / (2 * self.law.variance)
        return self.law.epsilon * self.distance

    def lattice(self) -> Lattice:
        """Where the noise lies.

        Raises:
            ConstraintError: the constraints determine the table.
        """
        return lattice_of(self.constraints.system)

    def event(self, noise: NoisePlan) -> PrivacyEvent:
        """Everything the release does to privacy."""
        return event_of(self.law, noise.lattice, self.distance, noise.total_variation)

    def description(self, noise: NoisePlan) -> str:
        """What the ledger says of the release: which table, and whom its guarantee is about."""
        nearest = nearest_tables(noise.lattice, self.law, self.neighbours)
        return f"table {self.name}. {protected(nearest, self.law, self.distance, self.neighbours)}"

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for `plan.json`: no path, so that the same plan elsewhere is the same plan."""
        system = self.constraints.system
        return {
            "format": SUBSPACE_FORMAT,
            "kind": "integer-subspace",
            "name": self.name,
            "schema": self.schema.to_mapping(),
            "table": {"count": self.table.count, "columns": dict(self.table.columns)},
            "constraints": list(system.names),
            "matrix": _digest_of_matrix(system.matrix),
            "stated_totals": [list(pair) for pair in self.constraints.stated],
            "law": str(self.law),
            "distance": str(self.distance),
            "neighbours": self.neighbours.value,
            "budget_unit": self.budget_unit,
            "declared": str(self.declared),
            "spent": str(self.cost),
            "delta": str(self.delta),
            "sampler": self.wish,
            "chain": {
                "allowed_delta": str(self.chain.allowed_delta),
                "sweeps": self.chain.sweeps,
                "pairs": self.chain.pairs,
                "longest": self.chain.longest,
                "confidence": str(self.chain.confidence),
                "extrapolate": self.chain.extrapolate,
            },
        }

    def digest(self) -> bytes:
        """SHA-256 of the plan's canonical JSON; the noise is bound to it."""
        return digest_of(self.to_mapping())


def _digest_of_matrix(matrix: Any) -> str:
    entries = [matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()]
    return digest_of({"rows": json.loads(json.dumps(entries))}).hex()
