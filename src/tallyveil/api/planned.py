"""Plan a release: its cost and its expected accuracy, and better shares of its budget, before any data is opened."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.api.arguments import AnyPath, Flag, Names, WholeNumber, as_path, checked, fixed
from tallyveil.api.products import require_input
from tallyveil.api.stated import StatedGuarantee
from tallyveil.errors import ConfigError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.plans.from_toml.load import load_plan, plan_from_mapping
from tallyveil.plans.release import ReleasePlan
from tallyveil.printable import described, tabulated

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.budget.allocation import Allocation
    from tallyveil.budget.optimal.choose import OptimalShares
    from tallyveil.explore.workbench import Workbench
    from tallyveil.geography.areas import AreaChange
    from tallyveil.plans.resources import Resources
    from tallyveil.postprocess.intervals.expected_deviations import AreaDeviations
    from tallyveil.products.topdown.run.shares_trial import Trial
    from tallyveil.schema.schema import Schema

ReleaseFile = str | Path | Mapping[str, Any]
"""A release file, or its content as nested mappings."""


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """A release as it is planned. Nothing confidential was opened to make it.

    Attributes:
        content: The plan in the types of the library.
    """

    content: ReleasePlan

    @property
    def name(self) -> str:
        """Name of the release."""
        return self.content.name

    @property
    def geolevels(self) -> tuple[str, ...]:
        """Geolevels that are measured, root first."""
        return self.content.geolevels

    @property
    def schema(self) -> "Schema":
        """The attributes of a record, and the queries that can be asked."""
        return self.content.schema

    @property
    def guarantee(self) -> StatedGuarantee:
        """What the release will cost. It is computed when it is asked for, which takes some tenths of a second.

        Raises:
            BudgetError, SolverError: no exact epsilon can be given.
        """
        from tallyveil.plans.guarantee import guarantee_of

        return StatedGuarantee(guarantee_of(self.content))

    def expected(self) -> "pl.DataFrame":
        """The noise of every query at every geolevel.

        Returns:
            One row for each, with `geolevel`, `query`, `answers`, `variance`, `standard_deviation` and `margin`. With
            probability 95 % or more the noise of an answer lies within the margin. The unit is the unit of record, for
            `variance` its square. Estimation usually reduces the error.
        """
        import polars as pl

        from tallyveil.budget.strategy import expected_errors
        from tallyveil.plans.record import CONFIDENCE

        # The confidence of the margins is that of the plan's own record, so that both say the same.
        columns = ("geolevel", "query", "variance", "standard_deviation", "margin")
        errors = expected_errors(self.content.strategy, CONFIDENCE)
        frame = pl.DataFrame({name: [getattr(item, name) for item in errors] for name in columns})
        # The number of answers stands third, beside the query.
        sizes = pl.Series("answers", [self.content.query(item.query).size for item in errors])
        return frame.insert_column(2, sizes)

    def secrets(self) -> "pl.DataFrame":
        """What the release guarantees of each secret of a record: an attribute, or the place within an area.

        Each guarantee is for populations that differ in this secret alone, and says nothing about several at once: that
        is `guarantee`. If the spine bypasses geounits, the public geography is opened.

        Returns:
            A row for each guarantee. `secret` is its name, which `guarantee_of_plan` takes for its curves. `records` is
            2 if one record alone would change what is published exactly, so that two exchange the secret; otherwise it
            is 1. A place may have both. `cost` is exact, in the unit of the budget. `epsilon` at `delta` is an upper
            bound, rounded up. `changes_invariants` has what one record alone may change; unless two records exchange
            the secret, only values and places are compared that change nothing of it.
        Raises:
            BudgetError, SolverError: epsilon cannot be computed.
            TallyveilError: the geography is wrong.
        """
        import polars as pl

        from tallyveil.plans.secrets import secrets_record
        from tallyveil.products.topdown.run.inputs import read_allocation_if_bypassed

        return pl.DataFrame(
            secrets_record(self.content, read_allocation_if_bypassed(self.content)),
            schema_overrides={"changes_invariants": pl.List(pl.String)},
        )

    @checked
    def resources(self, blocks: WholeNumber, people: WholeNumber | None = None) -> "Resources":
        """The memory, disk and time that a run will need, predicted from sizes alone.

        Args:
            blocks: Number of finest geounits.
            people: Number of records; None for 40 in each finest geounit.
        Returns:
            `memory` and `disk` in bytes; `seconds` by stage, on two cores; `total_seconds`.
        Raises:
            ConfigError: there is no finest geounit, or the number of records is negative.
        """
        from tallyveil.plans.resources import predict, sizes_of_blocks

        return predict(self.content, sizes_of_blocks(len(self.geolevels), blocks, people))

    @checked
    def standard_deviations(
        self,
        families: Names = (),
        *,
        entities: AnyPath | None = None,
        queries: Names | None = None,
    ) -> "pl.DataFrame":
        """Exact standard deviations of the unbiased estimates, for every geolevel and for families of entities.

        The public geography is opened, and so are public bounds and the table of entities. No records are.

        Args:
            families: Families of entities: columns of `entities`, or families of the release file's [spine].
            entities: Public table of the finest geounits with a column `geocode` and a column for each family.
            queries: Queries; None for those of the release's tables.
        Returns:
            One row for each geolevel or family and query, with the smallest, the median and the largest standard
            deviation of an answer. It is null where the measurements do not determine an answer.
        Raises:
            GeographyError, SchemaError, StoreError: the geography, the entities or the queries do not fit.
        """
        import polars as pl

        from tallyveil.products.topdown.run.public import deviations_of

        table = None if entities is None else Path(entities)
        deviations = deviations_of(
            self.content, table, list(families), None if queries is None else list(queries)
        )
        return pl.DataFrame([item.summary() for item in deviations])

    @checked
    def forecast(
        self,
        *,
        blocks: WholeNumber | None = None,
        people: WholeNumber | None = None,
        geography: Flag = False,
        families: Names | None = None,
        entities: AnyPath | None = None,
        queries: Names | None = None,
    ) -> "Forecast":
        """What is known of the release before any records are opened, all that `tallyveil plan` shows.

        Args:
            blocks: Number of finest geounits that memory, time and disk are predicted for; None for those of the
                geography if it is opened, else for no prediction.
            people: Number of records; None for 40 in each finest geounit.
            geography: Whether the public geography, entities and bounds are opened.
            families, entities, queries: As for `standard_deviations`; without families there are none.
        Raises:
            ConfigError: families are named of no table, and the release file has no [spine].
            TallyveilError: a public input is wrong.
        """
        from tallyveil.plans.record import impossible_levels
        from tallyveil.plans.resources import predict, sizes_of_blocks, sizes_of_spine

        plan, resources, deviations = self.content, None, None
        if families is not None and entities is None and plan.spine is None:
            raise ConfigError(
                "--families FAMILY,... and --entities FILE must be given together, because the release file has no "
                "[spine].",
                code="bad-flag",
            )
        public = None
        if geography:
            # Compiled code comes with it, which a plan that opens nothing should not wait for.
            from tallyveil.products.topdown.run.public import read_public

            public = read_public(plan)
        if blocks is not None:
            resources = predict(plan, sizes_of_blocks(len(plan.geolevels), blocks, people))
        elif public is not None:
            resources = predict(plan, sizes_of_spine(public.allocation.spine, people))
        if families is not None:
            from tallyveil.products.topdown.run.public import deviations_of

            table = None if entities is None else Path(entities)
            deviations = tuple(
                deviations_of(plan, table, list(families), None if queries is None else list(queries))
            )
        return Forecast(
            plan,
            None if public is None else public.allocation,
            () if public is None else public.hierarchies.changes,
            impossible_levels(plan.schema) if public is None else public.warnings,
            resources,
            deviations,
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, as `tallyveil plan --json` prints it."""
        from tallyveil.plans.record import plan_record

        return plan_record(self.content)

    def __repr__(self) -> str:
        levels = ", ".join(self.geolevels)
        return f"<Plan {self.name}: {self.schema.name}, {self.schema.size:,} cells; {levels}>"

    def _repr_html_(self) -> str:
        from tallyveil.report.release_files import schema_titles
        from tallyveil.report.wording import rounded
        from tallyveil.words.listing import listed

        guarantee, titles = self.guarantee, schema_titles(self.schema)
        lines = [
            ("geolevels", ", ".join(self.geolevels)),
            ("schema", f"{self.schema.name}, {self.schema.size:,} cells"),
            ("privacy", guarantee.statement),
            ("neighbours", guarantee.neighbours),
            *(("published exactly", name) for name in guarantee.invariants),
        ]
        attributes = listed([titles.factor(name) for name in self.schema.attribute_names])
        lead = (
            f"It will count {titles.unit.many} by {attributes}. No record was opened, and nothing is spent. The noise "
            "of a measured count is within its margin in at least 95 of 100 cases."
        )
        noise = [
            (item["geolevel"], item["query"], rounded(item["standard_deviation"]), f"± {item['margin']:,}")
            for item in self.expected().iter_rows(named=True)
        ]
        headings = ("geolevel", "query", "standard deviation of the noise", "margin")
        return described(f"Plan of release {self.name}", lines, lead) + tabulated(
            "Noise", headings, noise, n_names=2
        )


@dataclass(frozen=True, slots=True, repr=False)
class Forecast:
    """What is known of a release before any records are opened; made by `Plan.forecast`.

    Attributes:
        plan: The plan in the types of the library.
        allocation: The budget of every geounit, if the geography was opened.
        changes: How the spine changes the accuracy of each kind of area, if the geography was opened.
        warnings: What the plan allows and is seldom meant.
        resources: Predicted memory, time and disk, if sizes are known.
        deviations: Exact standard deviations, if families were named.
    """

    plan: ReleasePlan
    allocation: "Allocation | None"
    changes: "tuple[AreaChange, ...]"
    warnings: tuple[str, ...]
    resources: "Resources | None"
    deviations: "tuple[AreaDeviations, ...] | None"

    @property
    def privacy(self) -> dict[str, Any]:
        """The guarantee as plain data. What bypassing does to it follows from the geography, if that was opened."""
        from tallyveil.plans.guarantee import guarantee_of

        return guarantee_of(self.plan, self.allocation)

    @property
    def guess(self) -> str:
        """What the release lets somebody find out about one record, in the sentences that its report will have."""
        from tallyveil.plans.guess import guess_words, planned_guess

        plan = self.plan
        return guess_words(
            planned_guess(plan, self.privacy, self.allocation), plan.neighbours, plan.protected_unit
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, as `tallyveil plan --json` prints it."""
        from tallyveil.plans.record import plan_record
        from tallyveil.postprocess.intervals.expected_deviations import deviations_record
        from tallyveil.products.topdown.run.spine_making import changes_record

        record = plan_record(self.plan, self.resources, self.allocation, self.warnings)
        if self.deviations is not None:
            record["deviations"] = deviations_record(self.deviations)
        return record | changes_record(self.changes)


@checked
def plan(release: "ReleaseFile | Plan", *, folder: AnyPath | None = None) -> Plan:
    """Plan a release. No records are opened, and nothing is spent.

    Args:
        release: Path of a release file (TOML), or its content as nested mappings, or a plan, which is returned.
        folder: The folder from which relative paths of a mapping start; None for the current folder. The paths of a
            file start from the file's own folder.
    Raises:
        StoreError: the file cannot be read.
        ConfigError: the file or mapping has unknown keys or wrong values, or describes another product.
        SchemaError, BudgetError: the schema or the shares are wrong.
    """
    # The paths in a plan lead to the same files when the current folder changes.
    # A mapping has no folder of its own, so that its paths start where the caller says.
    if isinstance(release, Mapping):
        return Plan(plan_from_mapping(release, fixed(Path() if folder is None else folder)))
    if folder is not None:
        raise ConfigError(
            "folder belongs to a release that is given as a mapping. The paths in a release file start from the file's "
            "own folder: leave folder out.",
            code="bad-argument",
        )
    if isinstance(release, Plan):
        return release
    path = fixed(as_path(release, "release"))
    # First, so that a file of another product is refused with the command that takes it.
    require_input(path, ReleaseKind.TOPDOWN)
    return Plan(load_plan(path))


@dataclass(frozen=True, slots=True, repr=False)
class BetterShares:
    """Better shares of the budget of a plan; made by `optimise`.

    Attributes:
        plan: The plan with the present shares, in the types of the library.
        shares: The new shares, and the standard deviation of every aim before and after.
        trial: What releases of made-up records obtain under test keys; None if they were not made.
    """

    plan: ReleasePlan
    shares: "OptimalShares"
    trial: "Trial | None"

    @property
    def needs_more(self) -> bool:
        """Whether the new shares cost more than [privacy] declares."""
        # The strategy's part of what is spent is exchanged; counts on a lattice, if any, keep theirs.
        return self.plan.spent - self.plan.strategy.total + self.shares.strategy.total > self.plan.declared

    def to_toml(self) -> str:
        """The tables [strategy] and [estimation], to put in the place of those of the release file."""
        from tallyveil.plans.record import strategy_tables

        return strategy_tables(self.shares.strategy, self.plan) + "\n"


@checked
def optimise(
    release: AnyPath,
    aims: AnyPath,
    *,
    out: AnyPath | None = None,
    keys: WholeNumber | None = None,
    people: WholeNumber | None = None,
) -> BetterShares:
    """Find better shares of the same budget for aims. The public geography and entities are opened, and no records.

    Args:
        release: The release file.
        aims: The file of aims (TOML).
        out: File for the resulting tables; None to write none.
        keys: Number of test keys under which made-up records are released with the present and with the new shares;
            None for no such trial.
        people: Number of made-up records; None for 40 in each finest geounit.
    Raises:
        TallyveilError: a file or a public input is wrong, the aims cannot be met, or `out` is taken.
    """
    from tallyveil.plans.from_toml.aims import load_aims
    from tallyveil.products.topdown.run.optimal_shares import optimal_shares, public_inputs
    from tallyveil.storage.outputs import new_file
    from tallyveil.storage.write import write_text

    content, wanted = load_plan(Path(release)), load_aims(Path(aims))
    # The output is claimed before the search, which may take minutes, so that a file in its place is refused at once.
    inputs = [Path(release), Path(aims), *public_inputs(content, wanted)]
    with nullcontext() if out is None else new_file(Path(out), inputs):
        shares, trial = optimal_shares(content, wanted), None
        if keys is not None:
            from tallyveil.products.topdown.run.shares_trial import try_shares

            trial = try_shares(content, shares, keys, people)
        better = BetterShares(content, shares, trial)
        if out is not None:
            write_text(Path(out), better.to_toml())
    return better


@checked
def make_workbench(
    release: AnyPath,
    out: AnyPath,
    *,
    compared: AnyPath | None = None,
    blocks: WholeNumber | None = None,
    geography: Flag = False,
    entities: AnyPath | None = None,
    families: Names | None = None,
    queries: Names | None = None,
) -> "Workbench":
    """Write a page in which budget and shares can be moved; cost and expected errors follow at once.

    Args:
        release: The release file.
        out: Folder of the page: new, empty, or with an earlier site, which is replaced.
        compared: A second release file, whose numbers are shown beside; None without.
        blocks: Number of finest geounits of a regular spine, where the geography is not opened.
        geography: Whether the public geography is opened.
        entities: Public table of entities.
        families: Families of entities: columns of `entities`, or families of the release file's [spine]. The geography
            is then opened.
        queries: Queries whose estimates are shown; None for the tables and all measured queries.
    Returns:
        The page, and why it has no expected errors of estimates, if it has none.
    Raises:
        ConfigError: a release file is not offered, or a query is not known.
        StoreError: the folder holds something else, or cannot be written to.
    """
    from tallyveil.explore import workbench
    from tallyveil.explore.workbench import WorkbenchAreas
    from tallyveil.postprocess.intervals.areas import entity_families, read_entity_table
    from tallyveil.products.topdown.run.inputs import read_hierarchies

    # Without entities a regular spine will do, and no file need be opened.
    if not geography and families is None:
        areas = WorkbenchAreas(blocks=blocks)
    else:
        hierarchies, names = read_hierarchies(plan(release).content), list(families or [])
        if entities is None:
            areas = WorkbenchAreas(hierarchies, tuple(hierarchies.family(name) for name in names))
        else:
            table = read_entity_table(Path(entities), names)
            areas = WorkbenchAreas(hierarchies, tuple(entity_families(hierarchies.spine, table, names)))
    return workbench.make_workbench(
        Path(release),
        Path(out),
        compared=None if compared is None else Path(compared),
        areas=areas,
        queries=None if queries is None else list(queries),
    )
