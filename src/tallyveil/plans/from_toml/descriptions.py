"""Descriptions of noisy measurements that others published: how their files are read, and the plan that they follow.

A description is a TOML file. Some tables are those of a release file. With [strategy], the variances of the files are
compared with it. Without it, the strategy is computed from the variances. Descriptions of known products come with the
package, in the folder `published`.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.strategy import Strategy
from tallyveil.declared import Exact, Name, Whole, mapping_of
from tallyveil.errors import ConfigError
from tallyveil.files.geography import GEOGRAPHY
from tallyveil.measurements.layouts import tidy
from tallyveil.measurements.layouts.described.form import (
    EQUAL,
    AnswersTable,
    ColumnsTable,
    ConstraintRows,
    FilesTable,
    Form,
)
from tallyveil.measurements.layouts.layout import Layout
from tallyveil.plans.from_toml.load import parse_file
from tallyveil.plans.from_toml.models import EstimationTable, OutputsTable, ReleaseFile, StrategyTable
from tallyveil.plans.from_toml.planning import plan_of
from tallyveil.plans.from_toml.tables import Table
from tallyveil.plans.release import ReleasePlan, StatedPlan
from tallyveil.printable import short_name
from tallyveil.schema.names import PlainName, closest_hint
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema, SchemaTable
from tallyveil.storage.json_files import JsonObject, digest_of

ENDINGS: Final = (".toml", ".json")
_NOWHERE: Final = "not-here.parquet"
"""The path of tables that whoever made the measurements had."""


class DescribedPrivacy(Table):
    """[privacy]: what is known of the guarantee of the publisher."""

    neighbours: Literal["bounded", "unbounded"] = Field(
        default="bounded", description="Relation under which the budget is stated."
    )
    delta: Exact = Field(default=Fraction(1, 10**10), description="Delta at which epsilon is reported.")
    rho: Exact | None = Field(default=None, description="The declared budget. Only with [strategy].")


class DescriptionFile(Table):
    """A whole description."""

    name: PlainName = Field(description="Name of the product.")
    layout: PlainName | None = Field(
        default=None,
        description="Name that descriptions of one layout share. Default: the name of the product.",
    )
    geolevels: list[PlainName] = Field(
        min_length=1, description="All geolevels that there may be, root first."
    )
    universe: SchemaTable = Field(alias="schema")
    files: FilesTable
    columns: ColumnsTable = Field(default_factory=ColumnsTable)
    answers: AnswersTable
    queries: dict[Name, Name] = Field(
        default_factory=dict,
        description="What the files call a query, in any order of its factors, and its name. Queries are measured in "
        "this order.",
    )
    constraints: list[ConstraintRows] = Field(default_factory=list)
    other_constraints: Literal["refused", "ignored"] = Field(
        default="refused", description="What is done with rows of constraints that are not described."
    )
    tabulation: dict[Name, Whole] = Field(
        default_factory=dict,
        description="Where finest geocodes end with the 16 digits of a tabulation block of the United States: how many "
        "of these name a geounit of a geolevel.",
    )
    privacy: DescribedPrivacy = Field(default_factory=DescribedPrivacy)
    strategy: StrategyTable | None = Field(
        default=None, description="The strategy that the publisher declared. Without it, it is computed."
    )
    estimation: EstimationTable = Field(default_factory=EstimationTable)
    outputs: OutputsTable = Field(default_factory=OutputsTable)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.strategy is None) != (self.privacy.rho is None):
            raise ValueError("give [strategy] and [privacy] rho together, or neither")
        unknown = [name for name in self.tabulation if name not in self.geolevels]
        named = [item.geolevel for item in self.constraints if item.geolevel is not None]
        unknown += [name for name in named if name not in self.geolevels]
        if unknown:
            raise ValueError(f"{', '.join(map(short_name, unknown))} is none of geolevels")
        if self.constraints and self.files.constraints is None:
            raise ValueError("[[constraints]] are described, and [files] names no table of them")
        if self.outputs.measurements != "full":
            raise ValueError("[outputs] measurements is full: every noisy answer of the files is written")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """A description that was read.

    Attributes:
        file: What it says.
        form: What it says of files.
        schema: The universe.
        declared: The plan with the declared strategy; None if there is none.
    """

    file: DescriptionFile
    form: Form
    schema: Schema
    declared: ReleasePlan | None

    @property
    def name(self) -> str:
        """Name of the product."""
        return self.file.name

    @property
    def neighbours(self) -> Neighbours:
        """Relation under which the budget is stated."""
        return Neighbours(self.file.privacy.neighbours)

    def digest(self) -> str:
        """SHA-256 of what it says, in hexadecimal."""
        return digest_of(self.file.model_dump(mode="json", by_alias=True)).hex()

    def of_part(self) -> "Description":
        """The same of files that may be a part of what it describes."""
        return replace(self, form=replace(self.form, part=True))

    def plan_with(self, strategy: Strategy) -> ReleasePlan:
        """The plan of measurements with a strategy that was computed.

        Constraints at geolevels that the strategy does not have are left out, and so are queries of passes.

        Raises:
            ConfigError: parts of the description do not fit each other.
        """
        shares = {
            "geolevels": dict(strategy.geolevel_shares),
            "queries": {name: dict(strategy.shares_of(name)) for name in strategy.geolevels},
            "rho": strategy.total,
        }
        table = self.file.estimation
        passes = {
            # A geolevel may have fewer queries than another, so each gets passes of its own.
            name: [[query for query in names if query in {*strategy.queries(name), "*"}] for names in steps]
            for name in strategy.geolevels
            if (steps := table.passes.get(name, table.passes.get("*")))
        }
        rounding = {
            name: steps for name, steps in table.rounding.items() if name in (*strategy.geolevels, "*")
        }
        estimation = table.model_copy(
            update={
                "passes": {name: [q for q in steps if q] for name, steps in passes.items()},
                "rounding": rounding,
            }
        )
        return _plan(
            self.file, strategy.geolevels, StrategyTable.model_validate(shares), strategy.total, estimation
        )


def _plan(
    file: DescriptionFile,
    geolevels: Sequence[str],
    strategy: StrategyTable,
    rho: Fraction | None,
    estimation: EstimationTable,
) -> ReleasePlan:
    """The plan of a release whose measurements are those of a description."""
    exact = [
        {"query": item.query, "geolevels": [item.geolevel]}
        for item in file.constraints
        if item.sign == EQUAL and item.geolevel in geolevels
    ]
    bounds: dict[str, dict[str, Any]] = {}
    for item in file.constraints:
        if item.sign == EQUAL or item.geolevel not in geolevels:
            continue
        # What an absent row of the measurements will mean. It decides how many rows are written, and no bound.
        missing = "unbounded" if item.missing == "unbounded" else "zero"
        stated = {"name": item.bounds_name, "query": item.query, "geolevel": item.geolevel, "path": _NOWHERE}
        entry = bounds.setdefault(item.bounds_name, {**stated, "missing": missing})
        if any(entry[key] != value for key, value in stated.items()):
            raise ConfigError(
                f"[[constraints]] gives the bounds {item.bounds_name!r} to two queries or geolevels. Give each pair of "
                "lower and upper bounds a name of its own.",
                code="stated-twice",
            )
    content = {
        "release": {"name": file.name},
        "records": {"path": _NOWHERE, "count": "count"},
        "geography": {
            "path": _NOWHERE,
            "geolevels": list(geolevels),
            "parent_columns": list(geolevels[:-1]),
        },
        "schema": file.universe,
        "privacy": {
            "neighbours": file.privacy.neighbours,
            "mechanism": "discrete_gaussian",
            "rho": rho,
            "delta": file.privacy.delta,
        },
        "strategy": strategy,
        "estimation": estimation,
        "invariants": exact,
        "bounds": list(bounds.values()),
        "outputs": file.outputs,
    }
    return plan_of(ReleaseFile.model_validate(content, context=Path()))


def described(file: DescriptionFile) -> Description:
    """A description, with the plan of its declared strategy.

    Raises:
        ConfigError, SchemaError, BudgetError: its parts do not fit each other.
    """
    universe = file.universe
    schema = load_preset(universe.preset) if universe.preset is not None else universe.schema()
    declared = None
    if file.strategy is not None:
        declared = _plan(file, file.geolevels, file.strategy, file.privacy.rho, file.estimation)
        schema = declared.schema
    unknown = [name for name in file.answers.order if name not in schema.attribute_names]
    if file.answers.order and (unknown or len(file.answers.order) != len(schema.attributes)):
        raise ConfigError(
            f"[answers] order has {', '.join(map(short_name, file.answers.order))}; wanted each of "
            f"{', '.join(schema.attribute_names)} once.",
            code="unknown-attribute",
        )
    zeros = [zero.name for zero in schema.structural_zeros]
    for item in file.constraints:
        if item.zero is not None and item.zero not in zeros:
            raise ConfigError(
                f"[[constraints]] names the structural zero {short_name(item.zero)!r}. "
                f"{closest_hint(item.zero, zeros)}",
                code="unknown-attribute",
            )
        if item.query is not None:
            schema.query(item.query)
    form = Form(
        name=file.layout or file.name,
        geolevels=tuple(file.geolevels),
        files=file.files,
        columns=file.columns,
        answers=file.answers,
        queries=tuple(file.queries.items()),
        constraints=tuple(file.constraints),
        ignores_others=file.other_constraints == "ignored",
        tabulation=tuple(file.tabulation.items()),
    )
    return Description(file, form, schema, declared)


_FOLDER = resources.files("tallyveil.plans.from_toml") / "published"


def _packaged() -> dict[str, DescriptionFile]:
    """The descriptions that come with the package, by the names of their files, sorted."""
    texts = {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in _FOLDER.iterdir()
        if entry.name.endswith(".toml")
    }
    return {
        name: DescriptionFile.model_validate(tomllib.loads(texts[name]), context=Path())
        for name in sorted(texts)
    }


def packaged_descriptions() -> tuple[Description, ...]:
    """All descriptions that come with the package, by the names of their files."""
    return tuple(described(file) for file in _packaged().values())


def descriptions_named(name: str) -> tuple[Description, ...]:
    """The descriptions that a user names.

    Args:
        name: Path of a TOML or JSON file; or the name of a description that comes with the package; or that of a
            layout, for all of its descriptions, of which the files follow one.
    Raises:
        StoreError: the file cannot be read.
        ConfigError: there is no such description, or it is not well formed.
    """
    if name.endswith(ENDINGS):
        return (described(parse_file(Path(name), DescriptionFile, or_json=True)),)
    files = _packaged()
    chosen = [file for known, file in files.items() if name in (known, file.layout)]
    if not chosen:
        known = sorted({*files, *(file.layout for file in files.values() if file.layout)})
        raise ConfigError(
            f"there is no description {short_name(name)!r}. {closest_hint(name, known)} The name of a file ends in "
            f"{' or '.join(ENDINGS)}.",
            code="unknown-description",
        )
    return tuple(described(file) for file in chosen)


def description_of_export(plan: StatedPlan, constraints: Sequence[ConstraintRows]) -> JsonObject:
    """The description of a tidy export, by which its files can be imported.

    Args:
        plan: Of the measurements, with discrete Gaussian noise, where a person changes one record.
        constraints: What the rows of its constraints mean.
    Returns:
        Plain data for a JSON file.
    """
    coarser = [item.values for name, item in plan.estimation if name != plan.geolevels[-1]]
    (finest,) = [item for name, item in plan.estimation if name == plan.geolevels[-1]]
    allocates = finest.method == "allocation"
    # The passes of a geolevel that is allocated have no effect, and a file may not state them.
    steps = [(name, item) for name, item in plan.estimation if item.method != "allocation"]
    estimation = {
        "passes": {name: [list(names) for names in item.passes] for name, item in steps},
        "rounding": {name: [list(names) for names in item.rounding] for name, item in steps},
        "slack": str(finest.slack),
        "rounding_target": finest.target,
        "values": coarser[0] if coarser else finest.values,
        **({"blocks": finest.method} if allocates else {}),
    }
    return {
        "name": plan.name,
        "layout": Layout.TIDY.value,
        "geolevels": list(plan.geolevels),
        "schema": plan.schema.to_mapping(),
        "files": {
            "answers": f"{tidy.TIDY}/geolevel={{geolevel}}/query={{query}}",
            **(
                {"constraints": f"{tidy.CONSTRAINTS}/geolevel={{geolevel}}/constraint={{query}}"}
                if constraints
                else {}
            ),
            "geography": GEOGRAPHY,
        },
        "answers": {"form": "long", "variance": "noise"},
        "queries": {name: name for name in plan.strategy.every_query},
        "constraints": [
            {key: value for key, value in mapping_of(item).items() if value not in (None, [])}
            for item in constraints
        ],
        "privacy": {"neighbours": plan.neighbours.value, "delta": str(plan.delta)},
        "estimation": estimation,
        "outputs": {"tables": list(plan.tables), "microdata": plan.microdata},
    }
