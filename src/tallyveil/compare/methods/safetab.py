"""SafeTab: adaptive tables of the sensitive attribute's groups in every area, at any budget."""

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field

from tallyveil.accounting.events import SequentialEvent
from tallyveil.accounting.guarantee import compose
from tallyveil.arrays import Bools, Integers
from tallyveil.compare.inputs import Areas, PublicInput, SharedInput, TableName, answer_matrix
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.methods.topdown import certificate_of
from tallyveil.compare.published import Published, PublishedTable, observed_law
from tallyveil.declared import Exact
from tallyveil.errors import ConfigError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.safetab.public.from_toml import load_group_plan
from tallyveil.products.safetab.public.group_plan import GroupPlan
from tallyveil.products.safetab.public.tables import read_group_tables
from tallyveil.products.safetab.run.groups import run_groups
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.write import write_parquet, write_text

GROUP: Final = "group"
"""Column of the sensitive attribute; its values are the numbers of the levels, and those of areas likewise."""


class SafeTab(Method):
    """Adaptive noisy tables by SafeTab, as `tallyveil safetab run` makes them from records of any kind.

    Its groups are the levels of the sensitive attribute in every area. A noisy total decides whether a group is
    tabulated by the other attributes as well, or gets its total alone. Counts that it does not publish are hidden; sums
    over groups are shown where all parts are. The noise follows from the key of the comparison, so these tables protect
    nobody.
    """

    family: ClassVar[str] = "SafeTab"
    literature: ClassVar[str] = "Haney et al. 2021"
    cannot: ClassVar[str] = (
        "Tables do not add up over areas, counts can be below zero, and small groups get no detail. Its bound is about "
        "one record, and says little at a large budget."
    )
    strength: ClassVar[str] = (
        "One bound is about all attackers and all questions together, errors are unbiased with a stated margin, and "
        "detail goes where the people are."
    )

    kind: Literal["safetab"] = "safetab"
    budget: Exact = Field(
        gt=0, description="Rho or epsilon of all areas together, in the unit of the release file."
    )
    threshold: int = Field(
        default=20, ge=0, description="Noisy total from which a group is tabulated by the other attributes."
    )
    stage_1_fraction: Exact = Field(
        default=Fraction(1, 10),
        gt=0,
        lt=1,
        description="Share of a group's budget for the total that decides.",
    )
    shares: dict[str, Exact] | None = Field(
        default=None, description="Share of the budget for each geolevel and family. Default: all alike."
    )

    def require_fit(self, public: PublicInput) -> None:
        """Refuse shares or a budget whose plan cannot be made.

        Raises:
            ConfigError: the shares are not those of the areas, or the schema has no attribute but the sensitive one.
            TallyveilError: as `load_group_plan` raises it.
        """
        with TemporaryDirectory(prefix="tallyveil-") as folder:
            self._plan(Path(folder), public.plan, public.plan.schema, public.areas, public.sensitive)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared, sensitive = office.shared, office.sensitive
        axis = shared.schema.attribute_names.index(sensitive)
        root = office.work / "tables"
        records = _write_records(shared, axis, root.with_suffix(".parquet"))
        plan = self._plan(office.work, office.plan, shared.schema, shared.areas, sensitive)
        run_groups(plan, records, root, test_key=insecure_key(f"compare {office.draws.text}"))
        tables = _tables(root, plan, shared, axis)
        # A record whose sensitive attribute changes leaves one group and enters another. No measurement has both, so
        # that what is learnt is what two independent releases tell: one of a record less, and one of a record more.
        changed = SequentialEvent((plan.event(), plan.event()))
        certificate = certificate_of(
            compose(changed, neighbours=plan.neighbours),
            compose(plan.event(), neighbours=plan.neighbours),
            plan.delta,
            plan.budget_unit,
            plan.spent,
            plan.neighbours,
        )
        return Published(
            tables,
            observed_law(shared, tables),
            None,
            certificate=certificate,
            notes=(
                "Its own guarantee is for one record more or less. The bound on (a) is for a record whose sensitive "
                "attribute changes: it leaves one group and enters another, which costs up to twice the "
                f"{plan.budget_unit}.",
                "Nobody answers questions about unions of areas here.",
            ),
        )

    def _plan(
        self, folder: Path, plan: ReleasePlan, schema: Schema, areas: Sequence[Areas], sensitive: str
    ) -> GroupPlan:
        """The plan of the tables, of a file that is written to the folder."""
        file = folder / "tables.toml"
        write_text(file, "\n".join(self._lines(plan, schema, areas, sensitive)))
        return load_group_plan(file)

    def _lines(
        self, plan: ReleasePlan, schema: Schema, all_areas: Sequence[Areas], sensitive: str
    ) -> Iterator[str]:
        """The file that `tallyveil safetab run` would be given."""
        axis = schema.attribute_names.index(sensitive)
        names = [areas.name for areas in all_areas]
        shares = self.shares or {name: Fraction(1, len(names)) for name in names}
        if sorted(shares) != sorted(names) or sum(shares.values()) != 1:
            raise ConfigError(
                f"the method '{self.name}' has shares for {', '.join(sorted(shares))} that add up to "
                f"{sum(shares.values())}, wanted a share for each of {', '.join(names)}, together 1. Correct shares.",
                code="bad-key-or-value",
            )
        attributes = [item for number, item in enumerate(schema.attributes) if number != axis]
        if not attributes:
            raise ConfigError(
                f"the method '{self.name}' tabulates groups by the attributes besides {sensitive}, and the "
                "schema has none. Leave the method out.",
                code="bad-key-or-value",
            )
        gaussian = plan.budget_unit == "rho"
        unit, mechanism = ("rho", "discrete_gaussian") if gaussian else ("epsilon", "discrete_laplace")
        yield "[release]"
        yield f"name = {_text(self.name)}"
        yield "[privacy]"
        yield f"mechanism = {_text(mechanism)}"
        yield f"{unit} = {_text(self.budget)}"
        yield f"delta = {_text(plan.delta)}"
        yield f"stage_1_fraction = {_text(self.stage_1_fraction)}"
        yield "[cells]"
        yield f"details = [{_text(' * '.join(item.name for item in attributes))}]"
        for item in attributes:
            yield "[[cells.attributes]]"
            yield f"name = {_text(item.name)}"
            yield f"levels = [{', '.join(_text(level) for level in item.levels)}]"
        sizes = [(GROUP, schema.shape[axis])]
        sizes += [(_column(number), areas.n_areas) for number, areas in enumerate(all_areas)]
        for column, size in sizes:
            yield "[[groupings]]"
            yield f"name = {_text(column)}"
            yield f"columns = [{_text(column)}]"
            yield f"groups = [{', '.join(_text(number) for number in range(size))}]"
        for number, areas in enumerate(all_areas):
            yield "[[levels]]"
            yield f"name = {_text(_column(number))}"
            yield f"by = [{_text(_column(number))}, {_text(GROUP)}]"
            yield "most_groups = 1"
            yield f"budget = {_text(self.budget * shares[areas.name])}"
            yield f"thresholds = [{self.threshold}]"


def _text(value: object) -> str:
    """A text of a TOML file; its escapes are those of JSON."""
    return json.dumps(str(value), ensure_ascii=False)


def _column(number: int) -> str:
    return f"area {number}"


def _write_records(shared: SharedInput, axis: int, path: Path) -> Path:
    """One row for each person: numbers of areas and of the sensitive level, and labels of the other attributes."""
    geounits, cells = np.divmod(
        np.repeat(np.arange(shared.counts.size), shared.counts.ravel()), shared.counts.shape[1]
    )
    levels = shared.schema.decode(cells)
    columns: dict[str, pl.Series] = {GROUP: pl.Series(levels[:, axis]).cast(pl.String)}
    for number, areas in enumerate(shared.areas):
        place = areas.place[geounits]
        columns[_column(number)] = pl.select(
            pl.when(pl.Series(place) >= 0).then(pl.Series(place).cast(pl.String))
        ).to_series()
    for number, attribute in enumerate(shared.schema.attributes):
        if number != axis:
            columns[attribute.name] = pl.Series(list(attribute.levels)).gather(levels[:, number])
    write_parquet(path, pl.DataFrame(columns), {})
    return path


def _tables(root: Path, plan: GroupPlan, shared: SharedInput, axis: int) -> dict[TableName, PublishedTable]:
    """What the run published, as the tables of the comparison."""
    tables: dict[TableName, PublishedTable] = {}
    for number, areas in enumerate(shared.areas):
        totals, cells, detailed = _numbers(root, plan, shared, number, axis)
        for query in shared.queries:
            tables[areas.name, query.name] = _table(query, shared, totals, cells, detailed, axis)
    return tables


def _numbers(
    root: Path, plan: GroupPlan, shared: SharedInput, number: int, axis: int
) -> tuple[Integers, Integers, Bools]:
    """Totals by area and group, counts of the cells of the schema by area, and which groups have cells."""
    areas, n_groups = shared.areas[number], shared.schema.shape[axis]
    totals_frame, cells_frame = read_group_tables(root, plan.levels[number])

    def at(frame: pl.DataFrame) -> tuple[Integers, Integers]:
        return (
            frame[_column(number)].cast(pl.Int64).to_numpy(),
            frame[GROUP].cast(pl.Int64).to_numpy(),
        )

    totals = np.zeros((areas.n_areas, n_groups), dtype=np.int64)
    totals[at(totals_frame)] = totals_frame["COUNT"].to_numpy()
    cells = np.zeros((areas.n_areas, shared.schema.size), dtype=np.int64)
    detailed = np.zeros((areas.n_areas, n_groups), dtype=np.bool_)
    if cells_frame.height:
        place, group = at(cells_frame)
        detailed[place, group] = True
        # The cells of a group are those of the other attributes together, in their order.
        labels = plan.levels[number].cell_labels(1)
        cell = (
            cells_frame["CELL"].replace_strict(labels, range(len(labels)), return_dtype=pl.Int64).to_numpy()
        )
        shape = [
            attribute.size for position, attribute in enumerate(shared.schema.attributes) if position != axis
        ]
        codes = np.insert(np.stack(np.unravel_index(cell, shape), axis=1), axis, group, axis=1)
        cells[place, shared.schema.encode(codes)] = cells_frame["COUNT"].to_numpy()
    return totals, cells, detailed


def _table(
    query: QueryGroup, shared: SharedInput, totals: Integers, cells: Integers, detailed: Bools, axis: int
) -> PublishedTable:
    """One table: from totals where its answers are sums of whole groups, else from the cells of groups with detail."""
    matrix = answer_matrix(query)
    groups = shared.schema.decode(np.arange(shared.schema.size))[:, axis]
    n_groups = shared.schema.shape[axis]
    # How often each group's cells count in each answer, and how often they would if it held the whole group.
    counted = np.zeros((n_groups, query.size), dtype=np.int64)
    np.add.at(counted, groups, np.asarray(matrix.todense()))
    size = np.bincount(groups, minlength=n_groups)
    if ((counted == 0) | (counted == size[:, None])).all():
        return PublishedTable(totals @ (counted > 0).astype(np.int64))
    lacking = (~detailed).astype(np.int64) @ (counted > 0).astype(np.int64)
    return PublishedTable(np.asarray(cells @ matrix), lacking > 0)
