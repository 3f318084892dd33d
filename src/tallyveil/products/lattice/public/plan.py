"""The plan for the release of one table with exact invariants, as data: decided before the table is opened."""

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
import polars as pl
import scipy.sparse as sp

from tallyveil.accounting.events import Neighbours, PrivacyEvent
from tallyveil.accounting.numbers import exact_text
from tallyveil.declared import (
    ByName,
    Declared,
    Exact,
    Format1,
    Many,
    Name,
    Text,
    Whole,
    left_out,
    mapping_of,
)
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.plans.machine import in_gib, machine_memory
from tallyveil.schema.schema import Schema, StatedSchema
from tallyveil.storage.json_files import digest_of
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.guarantee import event_of, nearest_tables, protected, require_pairs, require_record
from tallyveil.subspace.lattice import Lattice, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, LatticeLaw
from tallyveil.subspace.noise_plan import (
    ChainSettings,
    NoisePlan,
    SamplerWish,
    plan_noise,
    plan_restricted,
)
from tallyveil.subspace.nonnegative import Outputs, require_outputs
from tallyveil.subspace.table import Margin, TableConstraints, constrain

if TYPE_CHECKING:
    from tallyveil.subspace.mcmc import SweepObserver

BYTES_A_NUMBER = 24
"""Of simulated noise, in memory while it is drawn and written."""


@dataclass(frozen=True, slots=True)
class TableInput:
    """The file of the confidential table, and how to read it.

    Attributes:
        path: Parquet or CSV file with one row for each cell, or one row for each record if `count` is None.
        count: Column of integer counts. Rows of the same cell are added, and cells without a row are zero.
        columns: Column of each attribute, by attribute name.
    """

    path: Path
    count: str | None
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class StatedColumns(Declared):
    """What a plan states of the confidential table: the columns of `TableInput`, and no path."""

    count: Name | None
    columns: ByName[Name]


@dataclass(frozen=True, kw_only=True)
class StatedSubspacePlan(Declared):
    """The plan of one table as `plan.json` states it. It has no path, so it does not depend on where its files are.

    Attributes:
        constraints: Names of the sums that are published exactly.
        matrix: SHA-256 of the matrix of these sums, which can be large itself.
        stated_totals: Row and total of the sums whose total is stated.
        law: In words.
        spent: The cost, in `budget_unit`.
        sampler: The sampler that is asked for.
    """

    # Part of the digest of the plan, which the noise key is bound to: another number would make every plan another one.
    format: Format1 = 1
    kind: Literal["integer-subspace"] = "integer-subspace"
    name: Text
    schema: StatedSchema
    table: StatedColumns
    constraints: Many[Text]
    matrix: Text
    stated_totals: Many[tuple[Whole, Whole]]
    law: Text
    distance: Exact
    neighbours: Neighbours
    budget_unit: Literal["rho", "epsilon"]
    declared: Exact
    spent: Exact
    delta: Exact
    outputs: Annotated[Outputs, left_out(Outputs.FREE)] = Outputs.FREE
    largest: Annotated[Whole | None, left_out(None)] = None
    sampler: SamplerWish
    chain: ChainSettings


@dataclass(frozen=True, slots=True)
class SubspacePlan:
    """The plan for one table: its cells, invariants, noise law and budget.

    Attributes:
        name: Name of the table in messages and outputs.
        schema: The cells. They are public, so an empty cell cannot be distinguished from others.
        table: The confidential counts.
        constraints: Sums that are published exactly.
        law: Law of the noise.
        distance: Largest distance of two tables that the guarantee covers, in the norm of the law; for Gaussian noise
            the squared l2 distance.
        neighbours: Neighbour relation under which the budget is declared.
        declared: Largest budget that may be spent: epsilon for Laplace noise, rho for Gaussian noise.
        delta: Delta at which the epsilon of Gaussian noise is reported.
        wish: The sampler that is asked for.
        chain: How a Markov chain is run, if one is needed.
        outputs: Which tables may come out: all, or those without negative counts.
        largest: Largest count of a cell, as is known to the public; None for no bound. Only such tables come out.
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
    outputs: Outputs = Outputs.FREE
    largest: int | None = None

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
        """The cost, in `budget_unit`."""
        if isinstance(self.law, GeneralisedGaussian):
            return self.distance / (2 * self.law.variance)
        # Restricted: the normalisers of the two laws differ as well (docs/proofs/integer-subspace.md, section 7).
        return self.law.epsilon * self.distance * (2 if self.outputs is Outputs.RESTRICTED else 1)

    def lattice(self) -> Lattice:
        """The lattice on which the noise lies.

        Raises:
            ConstraintError: the constraints determine the table.
        """
        return lattice_of(self.constraints.system)

    def published_sums(self) -> ConstraintSystem:
        """The sums that are published beside the table: the constraints, each attribute's levels, and the total."""
        stated, others = self.constraints.system, margins_of(self.schema)
        return ConstraintSystem.from_matrix(
            sp.vstack([stated.matrix, others.matrix], format="csr"), (*stated.names, *others.names)
        )

    def event(self, noise: NoisePlan) -> PrivacyEvent:
        """The privacy event of the release."""
        return event_of(
            self.law, noise.lattice, self.distance, noise.total_variation, restricted=noise.restricted
        )

    def description(self, noise: NoisePlan) -> str:
        """Description in the ledger: which table is released, and which neighbours its guarantee covers."""
        nearest = nearest_tables(noise.lattice, self.law, self.neighbours)
        said = protected(nearest, self.law, self.distance, self.neighbours, noise.largest)
        return f"table {self.name}. {said}"

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for `plan.json`."""
        system = self.constraints.system
        stated = StatedSubspacePlan(
            name=self.name,
            schema=self.schema,
            table=StatedColumns(count=self.table.count, columns=self.table.columns),
            constraints=system.names,
            matrix=_digest_of_matrix(system.matrix),
            stated_totals=self.constraints.stated,
            law=str(self.law),
            distance=self.distance,
            neighbours=self.neighbours,
            budget_unit=self.budget_unit,
            declared=self.declared,
            spent=self.cost,
            delta=self.delta,
            outputs=self.outputs,
            largest=self.largest,
            sampler=self.wish,
            chain=self.chain,
        )
        return mapping_of(stated)

    def digest(self) -> bytes:
        """SHA-256 of the plan's canonical JSON. The noise key depends on it."""
        return digest_of(self.to_mapping())


def noise_of(plan: SubspacePlan, observer: "SweepObserver | None" = None) -> NoisePlan:
    """Plan how the noise is drawn. No data is read.

    Raises:
        BudgetError: two tables that agree on the invariants are always farther apart than the plan's distance.
        ConfigError: the plan's outputs cannot be made exactly.
    """
    lattice = plan.lattice()
    # A guarantee about pairs of tables that do not exist would say nothing.
    require_pairs(lattice, plan.law, plan.distance)
    require_outputs(plan.outputs, plan.law, lattice, plan.largest)
    if plan.outputs is Outputs.RESTRICTED:
        return plan_restricted(lattice, plan.law, plan.largest)
    # A table above the largest count is refused, so that the guarantee is between tables that keep to it.
    return replace(plan_noise(lattice, plan.law, plan.wish, plan.chain, observer), largest=plan.largest)


CONSTRAINTS: Final = "constraints.parquet"
"""File of a release with the matrix of the sums that are published exactly."""


def constraint_table(system: ConstraintSystem) -> pl.DataFrame:
    """The matrix of a system: number of a sum, row of a cell in the published table, and its coefficient.

    Only cells with another coefficient than 0 have a row.
    """
    rows = system.matrix.tocoo()
    return pl.DataFrame(
        {
            "sum": np.array(system.names)[rows.row] if len(rows.row) else pl.Series([], dtype=pl.String),
            "number": rows.row.astype(np.int64),
            "cell": rows.col.astype(np.int64),
            "coefficient": rows.data.astype(np.int64),
        }
    ).sort("number", "cell")


def margins_of(schema: Schema) -> ConstraintSystem:
    """The sums of each attribute's levels, and the total."""
    # With one attribute, the sums of its levels are the cells themselves.
    names = schema.attribute_names if len(schema.attribute_names) > 1 else ()
    return constrain(schema, [*(Margin(name, (name,)) for name in names), Margin("total", ())]).system


def _digest_of_matrix(matrix: Any) -> str:
    # The matrix itself can be large; the plan holds its digest, which binds the noise key to it.
    entries = [matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()]
    return digest_of({"rows": json.loads(json.dumps(entries))}).hex()


def refuse_many_draws(plan: SubspacePlan, draws: int) -> None:
    """Refuse more simulated noise vectors than fit into memory; raises ConfigError."""
    needed, has = BYTES_A_NUMBER * draws * plan.schema.size, machine_memory()
    if needed > has:
        raise ConfigError(
            f"{draws:,} draws of noise in {plan.schema.size:,} cells would need about {in_gib(needed)} of memory, and "
            f"this process may use {in_gib(has)}. Ask for fewer with --draws.",
            code="subspace-draws",
        )
