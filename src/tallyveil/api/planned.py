"""Plan a release: its cost and its expected accuracy, before any data is opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.api.given import count_given, fixed, names_given, path_given
from tallyveil.api.products import require_input
from tallyveil.api.stated import StatedGuarantee
from tallyveil.errors import ConfigError
from tallyveil.files.kinds import ReleaseKind
from tallyveil.plans.from_toml.load import load_plan, plan_from_mapping
from tallyveil.plans.release import ReleasePlan
from tallyveil.printable import described, tabulated

if TYPE_CHECKING:
    import polars as pl

    from tallyveil.plans.resources import Resources
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

        return StatedGuarantee(guarantee_of(self.content.terms))

    def expected(self) -> "pl.DataFrame":
        """The noise of every query at every geolevel.

        Returns:
            One row for each, with `geolevel`, `query`, `answers`, `variance`, `standard_deviation` and `margin`. With
            probability 95 % or more the noise of an answer lies within the margin. The unit is the unit of record, for
            `variance` its square. Estimation usually reduces the error.
        """
        import polars as pl

        from tallyveil.budget.expected import expected_errors
        from tallyveil.plans.record import CONFIDENCE

        columns = ("geolevel", "query", "variance", "standard_deviation", "margin")
        found = expected_errors(self.content.strategy, CONFIDENCE)
        frame = pl.DataFrame({name: [getattr(item, name) for item in found] for name in columns})
        sizes = pl.Series("answers", [self.content.query(item.query).size for item in found])
        return frame.insert_column(2, sizes)

    def resources(self, blocks: int, people: int | None = None) -> "Resources":
        """The memory, disk and time that a run will need, predicted from sizes alone.

        Args:
            blocks: Number of finest geounits.
            people: Number of records; None for 40 in each finest geounit.
        Returns:
            `memory` and `disk` in bytes; `seconds` by stage, on two cores; `total_seconds`.
        Raises:
            ConfigError: there is no finest geounit, or the number of records is negative.
        """
        from tallyveil.plans.resources import predict
        from tallyveil.plans.sizes import sizes_of_blocks

        n_people = None if people is None else count_given(people, "people")
        sizes = sizes_of_blocks(len(self.geolevels), count_given(blocks, "blocks"), n_people)
        return predict(self.content, sizes)

    def standard_deviations(
        self,
        families: Sequence[str] = (),
        *,
        entities: "str | Path | None" = None,
        queries: Sequence[str] | None = None,
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

        path = None if entities is None else path_given(entities, "entities")
        wanted, areas = names_given(queries, "queries"), names_given(families, "families")
        found = deviations_of(self.content, path, areas or [], wanted)
        return pl.DataFrame([item.summary() for item in found])

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, as `tallyveil plan --json` prints it."""
        from tallyveil.plans.record import plan_record

        return plan_record(self.content)

    def __repr__(self) -> str:
        levels = ", ".join(self.geolevels)
        return f"<Plan {self.name}: {self.schema.name}, {self.schema.size:,} cells; {levels}>"

    def _repr_html_(self) -> str:
        from tallyveil.report.titles import schema_titles
        from tallyveil.report.wording import listed, rounded

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


def plan(release: "ReleaseFile | Plan", *, folder: str | Path | None = None) -> Plan:
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
    if isinstance(release, Mapping):
        start = Path() if folder is None else path_given(folder, "folder")
        return Plan(plan_from_mapping(release, fixed(start)))
    if folder is not None:
        raise ConfigError(
            "folder belongs to a release that is given as a mapping. The paths in a release file start from the file's "
            "own folder: leave folder out.",
            code="bad-argument",
        )
    if isinstance(release, Plan):
        return release
    path = fixed(path_given(release, "release"))
    require_input(path, ReleaseKind.TOPDOWN)
    return Plan(load_plan(path))
