"""The release of one table with exact invariants, and its comparison with the true counts.

A run reads plan and table, spends, draws noise and checks the written file. A finished release can be
compared with the true counts. That job declassifies records.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.ledger.book import Spend
from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import LEDGER, Declaration
from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, SolverError, StoreError
from tallyveil.files.declassified import mark_declassified
from tallyveil.files.evaluation import table_errors, write_errors
from tallyveil.files.finished import PLAN
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed, read_listed_table, read_manifest
from tallyveil.noise.source import NoiseSource
from tallyveil.products.lattice.confidential import (
    ConfidentialTable,
    check_stated_totals,
    declassify_table,
    keeps_invariants,
    read_confidential_table,
    release_table,
    require_summable,
    require_table_header,
    require_within,
    restricted_sampler,
    restricted_table,
)
from tallyveil.products.lattice.public.plan import (
    CONSTRAINTS,
    StatedSubspacePlan,
    SubspacePlan,
    constraint_table,
    noise_of,
    refuse_many_draws,
)
from tallyveil.products.lattice.public.verified import (
    DRAWS,
    SUMS,
    SUMS_CSV,
    TABLE,
    TABLE_CSV,
    UNBIASED,
    margins_record,
    names_of_cells,
    plan_of_table,
    table_checks,
)
from tallyveil.products.lattice.run.nearest import nearest_table
from tallyveil.runs.key_file import binding_of
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Run, Work
from tallyveil.schema.schema import schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import refuse_inputs
from tallyveil.storage.paths import refuse_long_paths
from tallyveil.storage.write import TEMPORARY_SUFFIX, write_file, write_json, write_parquet
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.sampler import VectorSampler
from tallyveil.subspace.mechanisms import GeneralisedLaplace
from tallyveil.subspace.noise_plan import (
    ErrorMargins,
    NoisePlan,
    error_margins,
    guarantee_record,
    margin_draws,
    noise_record,
)
from tallyveil.subspace.nonnegative import Outputs

# The noise has place 0 (its query is 0).
_ORDER_QUERY = 1
_RESTRICTED_QUERY = 2
"""Places in the address space, apart from those of the noise."""

_LONG_SECONDS = 10
"""A chain that takes longer is announced before it starts."""


@dataclass(frozen=True, slots=True)
class SubspaceOutcome:
    """The result of a release.

    Attributes:
        path: The folder.
        manifest: Content of `manifest.json`.
        noise: The plan of the noise. None if the folder held a finished release before the inputs were read.
        already_finished: Whether the folder already held this release, so that nothing was done.
    """

    path: Path
    manifest: Manifest
    noise: NoisePlan | None
    already_finished: bool


def run_subspace(
    plan: SubspacePlan,
    out: Path,
    *,
    draws: int = 0,
    test_key: bytes | None = None,
    observer: Observer | None = None,
    book: Path | None = None,
) -> SubspaceOutcome:
    """Release one table, or resume an interrupted release.

    Args:
        plan: Plan of the release.
        out: Folder. It does not exist, is empty, or holds an unfinished run of the same plan and table.
        draws: Number of further noise vectors to write, for simulations. Allowed only with a test key.
        test_key: Key for tests; the release then protects nobody. None for a key from the operating system.
        observer: Receives reports of progress.
        book: The book of the register, into which the spend is entered; None for none.
    Raises:
        TallyveilError: an input is wrong. Nothing is spent before plan, chain and table are checked.
    Privacy: spends `plan.cost` once, however often the run is interrupted and resumed.
    """
    if draws and test_key is None:
        raise ConfigError(
            f"{draws} repeated draws were asked for without a test key. In a real run the budget would have to pay "
            "for every draw, and the noise of no draw may be shown. For a simulation give --insecure-test-key TEXT.",
            code="subspace-draws",
        )
    if draws and plan.outputs is Outputs.RESTRICTED:
        raise ConfigError(
            f'{draws} repeated draws of noise were asked for, but with outputs = "restricted" there is no noise apart '
            "from the table. Leave --draws out, or simulate by releasing several times with different test keys.",
            code="subspace-draws",
        )
    refuse_many_draws(plan, draws)
    product = TableProduct(plan, draws)
    # `product.noise` stays None where the folder held a finished release, which is not read again.
    outcome = run_product(product, out, test_key=test_key, observer=observer, book=book)
    return SubspaceOutcome(out, outcome.manifest, product.noise, outcome.already_finished)


@dataclass(slots=True)
class TableProduct:
    """The release of one table.

    Attributes:
        plan: Plan of the release.
        draws: Number of further noise vectors to write, for simulations.
        noise: The plan of the noise, once it is made.
    """

    plan: SubspacePlan
    draws: int = 0
    noise: NoisePlan | None = None

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return self.plan.digest().hex()

    def spend(self) -> Spend:
        """What the table will cost; this plans the noise, whose distance from its law is part of it."""
        self.noise = noise_of(self.plan)
        return Spend(self.plan.event(self.noise), self.plan.neighbours, self.plan.description(self.noise))

    def refuse(self, out: Path) -> None:
        """Refuse an output folder in which the table lies, or whose path is too long; raises StoreError."""
        refuse_inputs(out, [self.plan.table.path])
        refuse_long_paths(out, [DRAWS, "diagnostics/total-variation.csv"], TEMPORARY_SUFFIX)

    def read(self, out: Path, observer: Observer) -> Work:
        """Plan the noise, and read and check the table; nothing is written."""
        plan, watch = self.plan, Stopwatch(observer)
        columns = dict(plan.table.columns)
        named = [*columns.values(), *([] if plan.table.count is None else [plan.table.count])]
        require_table_header(
            plan.table.path, named
        )  # checked before the lattice is built, which may take long
        noise = self.noise or noise_of(plan, observer)
        _tell_long_chain(noise, observer)
        guarantee = guarantee_record(noise, plan.distance, plan.delta, plan.neighbours)
        sums = plan.published_sums()
        # Margins come from noise under a public key, so they are known, and can fail, before the table is opened.
        with watch.stage("margins of error", margin_draws(noise)):
            margins = error_margins(noise, sums, observer.advanced)
        with watch.stage("read table"):
            table = read_confidential_table(
                plan.table.path, count=plan.table.count, columns=columns, schema=plan.schema
            )
            check_stated_totals(table, plan.constraints)
            require_summable(table, sums)
            if plan.outputs is not Outputs.FREE:
                require_within(table, plan.largest)
            sampler = None
            if noise.restricted and isinstance(plan.law, GeneralisedLaplace):
                sampler = restricted_sampler(table, noise.lattice, plan.law, plan.largest)
        self.noise = noise
        return _TableWork(plan, noise, guarantee, sums, margins, table, sampler, self.draws, watch)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _TableWork:
    """All inputs, after the checks and before any draw. Holds the confidential table."""

    plan: SubspacePlan
    noise: NoisePlan
    guarantee: JsonObject
    sums: ConstraintSystem
    margins: ErrorMargins | None
    table: ConfidentialTable
    sampler: VectorSampler | None
    draws: int
    watch: Stopwatch

    def __repr__(self) -> str:
        return "_TableWork(<redacted>)"

    def job(self) -> Job:
        """The inputs that identify the run, and what it spends."""
        plan = self.plan
        return Job(
            kind=ReleaseKind.SUBSPACE,
            plan_digest=plan.digest().hex(),
            whole_plan=plan.digest(),
            binding=binding_of(self.table.digest(), plan.digest()),
            declaration=Declaration(plan.budget_unit, plan.declared, plan.neighbours),
            event=plan.event(self.noise),
            privacy=self.guarantee,
            description=plan.description(self.noise),
            token="release",
        )

    def release(self, run: Run) -> JsonObject:
        """Draw the noise and write the table; returns the body of the manifest."""
        plan, noise = self.plan, self.noise
        run.make([PLAN], lambda: write_json(run.path / PLAN, plan.to_mapping()))
        # Who reads the release can then see what is published exactly, and derive the guarantee.
        matrix = constraint_table(plan.constraints.system)
        run.make([CONSTRAINTS], lambda: write_parquet(run.path / CONSTRAINTS, matrix, run.tags))

        def write_table() -> JsonObject:
            _write_table(run, self, _drawn(self, run.secrets.noise_key))
            return {}

        def write_draws() -> JsonObject:
            if self.draws:
                _write_draws(run, plan, noise, self.draws)
            return {}

        with self.watch.stage("draw and write", noise.steps):
            run.stage("table", [TABLE, TABLE_CSV, SUMS, SUMS_CSV], write_table)
            run.stage(f"{self.draws} draws", [DRAWS], write_draws)
        return {
            "name": plan.name,
            "plan": plan.to_mapping(),
            "inputs": {"table_keyed_hash": run.secrets.commitment(self.table.digest())},
            "noise": noise_record(noise),
            "margins": margins_record(self.margins),
        }

    def check(self, run: Run) -> list[str]:
        """Read the written files back and check that they keep the invariants."""
        with self.watch.stage("checks"):
            return _checks(run.path, self)


def _tell_long_chain(noise: NoisePlan, observer: Observer) -> None:
    """Say how long a chain will take, if it takes long."""
    seconds = noise.seconds_of_chain()
    whole = seconds * (1 + margin_draws(noise))
    if whole > _LONG_SECONDS:
        observer.warned(
            f"The noise is drawn by a chain of {noise.steps} sweeps. One draw takes about {seconds:.2g} seconds on "
            f"this machine. The release draws one table and simulates {margin_draws(noise)} for its margins of error, "
            f"which takes about {whole / 60:.2g} minutes."
        )


def _drawn(work: _TableWork, key: bytes) -> dict[str, Integers]:
    """The columns of the published table: its counts and, if these are post-processed, what they were made from."""
    plan, noise, source = work.plan, work.noise, NoiseSource(key)
    # The restricted law draws the table itself; there is no noise that could be added or published apart.
    if isinstance(plan.law, GeneralisedLaplace) and noise.restricted:
        place = NoiseAddress(source, 0, _RESTRICTED_QUERY)
        structure = noise.lattice.structure
        drawn = restricted_table(work.table, place, structure, plan.law, work.sampler, plan.largest)
        return {"count": drawn}
    noisy = release_table(
        work.table, noise.draw(key, range(1), work.watch.advanced)[0], plan.constraints.system
    )
    if plan.outputs is Outputs.FREE:
        return {"count": noisy}
    # A random order of the cells decides among equally near tables. It depends on nothing confidential, and a resumed
    # run gets the same one.
    words = source.numbers(0, _ORDER_QUERY, [0], 0, noise.lattice.n_cells)[0]
    order = np.argsort(np.argsort(words, kind="stable"))
    matrix = plan.constraints.system.matrix
    return {"count": nearest_table(noisy, noise.lattice, matrix, order, plan.largest), UNBIASED: noisy}


def _write_table(run: Run, work: _TableWork, counts: dict[str, Integers]) -> None:
    """Write the table and its sums, each with the margins of its unbiased counts."""
    columns, margins = names_of_cells(work.plan.schema), work.margins
    cells = pl.DataFrame({**columns, **counts, **({"margin": margins.cells} if margins else {})})
    totals = {name: work.sums.totals(values) for name, values in counts.items()}
    sums = pl.DataFrame({"sum": work.sums.names, **totals, **({"margin": margins.sums} if margins else {})})
    for frame, path, csv in ((cells, TABLE, TABLE_CSV), (sums, SUMS, SUMS_CSV)):
        write_parquet(run.path / path, frame, run.tags)
        write_file(run.path / csv, frame.write_csv)


def _write_draws(run: Run, plan: SubspacePlan, noise: NoisePlan, draws: int) -> None:
    """Write the noise of the draws after the released one. Noise alone reveals nothing about the table."""
    vectors = noise.draw(run.secrets.noise_key, range(1, draws + 1))
    columns = {name: levels * draws for name, levels in names_of_cells(plan.schema).items()}
    # Draw 0 is that of the release and is never written.
    number = np.repeat(np.arange(1, draws + 1), plan.schema.size)
    frame = pl.DataFrame({"draw": number, **columns, "noise": vectors.ravel()})
    write_parquet(run.path / DRAWS, frame, run.tags)


def _checks(out: Path, work: _TableWork) -> list[str]:
    """Read the written files back and check that they keep the invariants."""
    system = work.plan.constraints.system
    passed = table_checks(
        out,
        work.plan,
        work.sums,
        work.noise.lattice,
        lambda counts: keeps_invariants(work.table, counts, system),
    )
    for name, holds in passed.items():
        if not holds:
            raise SolverError(
                f"final check failed: {name}. The release must not be published; keep the folder and report this.",
                code="check-failed",
            )
    return list(passed)


def evaluate_table(root: Path, truth: Path) -> pl.DataFrame:
    """Errors of a released table against the true counts, by size class.

    Args:
        root: Folder of a finished release.
        truth: The true table, with the columns that the release was made from.
    Returns:
        The table of `table_errors`. It is also written to `evaluation` in the release.
    Raises:
        StoreError: the folder holds no finished release of a table.
        SchemaError, ConfigError, ConstraintError: the table does not fit the release, or has other exact sums than it.
            Nothing was entered into the ledger then.
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
    known = plan_of_table(root, manifest)
    declaration = Declaration(plan["budget_unit"], Fraction(plan["declared"]), Neighbours(plan["neighbours"]))
    with Ledger(root / LEDGER, declaration, manifest.run) as ledger:
        counts = declassify_table(
            truth,
            count=plan["table"]["count"],
            columns=plan["table"]["columns"],
            schema=schema,
            ledger=ledger,
            reason="true counts compared with the release; the results reveal them",
            released=released["count"].to_numpy(),
            exact=None if known is None else known.constraints.system,
        )
        # In the manifest before an error is computed, so that no report comes without the mark.
        mark_declassified(root, ledger.entries)
    errors = table_errors(released, counts)
    write_errors(root, {"errors-table": errors}, {"run": manifest.run})
    return errors
