"""Noisy answers of a finished folder: those of one query, or all of them in a layout that others read.

The second is the job of `tallyveil measurements export`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import polars as pl

from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError, SchemaError, StoreError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import GEOGRAPHY, write_geography
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed_table
from tallyveil.files.marks import marks_of
from tallyveil.geography.spine import Spine
from tallyveil.measurements.layouts import tidy
from tallyveil.measurements.layouts.census_2020 import words
from tallyveil.measurements.layouts.census_2020.write import LayoutWriter, published_geocodes, steps_of
from tallyveil.measurements.layouts.described.form import AT_LEAST, AT_MOST, EQUAL, ConstraintRows
from tallyveil.measurements.layouts.layout import Layout
from tallyveil.measurements.layouts.tidy import tidy_rows
from tallyveil.measurements.names import measurement_name
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.from_toml.descriptions import description_of_export
from tallyveil.plans.guarantee import with_guarantee
from tallyveil.postprocess.constraint_files import stated_invariant
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.exchange.joined import join
from tallyveil.postprocess.measured import Measured
from tallyveil.runs.observer import Observer, SilentObserver, Stopwatch
from tallyveil.schema.answer_columns import summed_out
from tallyveil.schema.counts import NO_LIMIT
from tallyveil.schema.names import as_named
from tallyveil.schema.presets import load_preset
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.write import write_json, write_text


def noisy_parts(root: Path, manifest: Manifest, geolevel: str, query: str) -> Iterator[pl.DataFrame]:
    """The parts of a query's noisy answers, each checked against the manifest.

    Raises:
        StoreError: a part is missing, cannot be read, or is not the one that the manifest lists.
    """
    for name in _part_names(manifest, geolevel, query):
        yield read_listed_table(root, manifest, name)


def _part_names(manifest: Manifest, geolevel: str, query: str) -> list[str]:
    folder = measurement_name(geolevel, query) + "/"
    # Sorted: parts are numbered with leading zeros, so that this is the order of geounits.
    return sorted(name for name in manifest.digests if name.startswith(folder))


def noisy_answers(root: Path, manifest: Manifest, geolevel: str, query: str) -> pl.DataFrame:
    """The noisy answers of a query at a geolevel of the spine, as far as the folder keeps them.

    Args:
        root: A finished release or finished measurements.
        manifest: Its manifest.
        geolevel: A measured geolevel.
        query: A query that was measured there.
    Returns:
        `geocode`, a column for each attribute that the query names, `value` (a count, int64) and `variance` (squared
        counts). A geounit without a share of the budget has no rows. If only answers on the support were kept, the
        others have no rows.
    Raises:
        ConfigError: the query was not measured at this geolevel.
        StoreError: the folder keeps no noisy answers, or they are damaged.
    """
    plan = stated_plan(root / MANIFEST, manifest.body["plan"])
    if plan.measurements == "none":
        raise StoreError(
            f'{root} keeps no noisy answers (measurements = "none"). They cannot be drawn again, because the key of '
            'the noise has been removed. Make the next release with measurements = "full" under [outputs], which '
            "costs no additional budget.",
            code="measurements-missing",
        )
    measured = {name: plan.strategy.queries(name) for name in plan.strategy.geolevels}
    query = as_named(query, measured.get(geolevel, ()))
    if query not in measured.get(geolevel, ()):
        known = "; ".join(f"{name}: {', '.join(queries)}" for name, queries in measured.items())
        raise ConfigError(
            f"{root} has no measurements of {query!r} at {geolevel!r}. Ask for what was measured. {known}.",
            code="no-table",
        )
    if plan.measurements == "small" and not _part_names(manifest, geolevel, query):
        raise StoreError(
            f'{root} keeps no noisy answers of {query!r} at {geolevel} (measurements = "small"), because they would '
            "have been too many. They cannot be drawn again, because the key of the noise has been removed. Ask for a "
            "smaller query, or for a coarser geolevel.",
            code="measurements-missing",
        )
    group = plan.query(query)
    parts = noisy_parts(root, manifest, geolevel, query)
    # The empty frame gives the columns and their types where there is no part.
    rows = pl.concat([tidy_rows(group, _NO_PART), *(tidy_rows(group, part) for part in parts)])
    return rows.drop(summed_out(group))


_NO_PART = pl.DataFrame(schema={"geocode": pl.String, "values": pl.List(pl.Int64), "variance": pl.Float64})
"""Measurements of no geounit: on the support, a query may have nothing that had to be measured."""


COMMAND: Final = "measurements export"
README: Final = "README.txt"
_WHAT: Final = "measurements in another layout"
_STATE: Final = "State"


def export_measurements(
    measured: Measured,
    out: Path,
    layout: Layout,
    *,
    second: Measured | None = None,
    observer: Observer | None = None,
) -> None:
    """Write measurements in a layout. An interrupted export starts again with the same command.

    Args:
        measured: The measurements, opened.
        out: A new or empty folder, or one in which an export was interrupted.
        layout: The layout.
        second: Measurements of the same people by another product, which are written as questions about the cells of
            the first; None for none.
        observer: Receives reports of progress.
    Raises:
        SchemaError, GeographyError: the layout cannot hold these measurements, or the two do not fit together.
        StoreError: the folder cannot be used, or a file cannot be read or written.
    Privacy: post-processing of published measurements.
    """
    sources = [measured] if second is None else [measured, second]
    refuse_inputs(out, [item.root for item in sources])
    for item in sources:
        refuse_output_inside(out, item.root)
    if layout is Layout.CENSUS_2020:
        if second is not None:
            raise SchemaError(
                f'the layout "{layout.value}" has files of one product, and two were given. Write the layout '
                f'"{Layout.TIDY.value}".',
                code="layout-unsuited",
            )
        export: _Census2020 | _Tidy = _Census2020(measured)
    else:
        export = _Tidy(measured, second)
    with new_folder(out, COMMAND, _WHAT, [*export.parts, README]):
        export.write(out, observer or SilentObserver())
        write_text(out / README, "\n".join(_readme(item, layout) for item in sources))


def _tags(measured: Measured) -> dict[str, str]:
    """Metadata of every file: the runs that drew the noise, and whether their keys were secret."""
    manifest = measured.manifest
    protected = "true" if manifest.protected else "false: made with an insecure test key, protects nobody"
    return {"measured_by": " ".join(manifest.measured_by), "protected": protected}


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """The noisy answers of one query at one geolevel.

    Attributes:
        source: The measurements.
        measured_at: The geolevel there.
        query: The query there.
        geolevel, group: Geolevel and query as they are written.
    """

    source: Measured
    measured_at: str
    query: str
    geolevel: str
    group: QueryGroup


class _Tidy:
    """The layout "tidy", of one folder of measurements or of two that are joined."""

    def __init__(self, measured: Measured, second: Measured | None = None) -> None:
        self._measured = measured
        self._second = None if second is None else (second, join(measured, second))
        self._hierarchies = measured.hierarchies if self._second is None else self._second[1].hierarchies
        # Names become folders, and two of them must not fall together.
        tidy.require_names(self._hierarchies.spine.geolevels, [item.group.name for item in self._answers()])

    @property
    def parts(self) -> list[str]:
        """Names of the folders and files that are written."""
        return [tidy.TIDY, tidy.CONSTRAINTS, tidy.DESCRIPTION, GEOGRAPHY]

    def write(self, out: Path, observer: Observer) -> None:
        """Write every query of every geolevel."""
        measured, tags = self._measured, _tags(self._measured)
        watch, answers = Stopwatch(observer), list(self._answers())
        for geolevel in self._hierarchies.spine.geolevels:
            here = [item for item in answers if item.geolevel == geolevel]
            with watch.stage(f"export {geolevel}", len(here)):
                for item in here:
                    self._write_answers(out, item)
                    observer.advanced(1)
        write_geography(out, replace(self._hierarchies, names=None, geometry=None), tags)
        rows = [item for table in measured.constraints for item in _write_constraint(out, measured, table)]
        if self._second is not None:
            second, joint = self._second
            rows += [
                row
                for table in joint.constraints
                for row in _write_constraint(out, second, table, joint.geolevels)
            ]
        # Laplace noise has no strategy that is computed from variances, and so no description. Where a person changes
        # two derived records, the cost that follows from the variances, for one record, would be too small.
        strategy = measured.plan.strategy
        if strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN and strategy.records == 1:
            write_json(out / tidy.DESCRIPTION, self._description(rows))

    def _answers(self) -> Iterator[_Answers]:
        """All noisy answers, those of the second product last."""
        plan = self._measured.plan
        for geolevel in self._measured.hierarchies.spine.geolevels:
            for query in plan.strategy.queries(geolevel):
                yield _Answers(self._measured, geolevel, query, geolevel, plan.query(query))
        if self._second is not None:
            second, joint = self._second
            for geolevel in second.hierarchies.spine.geolevels:
                for query in second.plan.strategy.queries(geolevel):
                    group = joint.queries[query].group
                    yield _Answers(second, geolevel, query, joint.geolevels[geolevel], group)

    def _write_answers(self, out: Path, item: _Answers) -> None:
        number, tags, source = 0, _tags(item.source), item.source
        for frame in noisy_parts(source.root, source.manifest, item.measured_at, item.query):
            rows = frame
            if self._second is not None and source is self._second[0]:
                rows = self._second[1].queries[item.query].in_order(frame)
            number = tidy.write_tidy(out, item.geolevel, item.group, rows, number, tags)

    def _description(self, constraints: Sequence[ConstraintRows]) -> JsonObject:
        plan = self._measured.plan
        content = description_of_export(plan, constraints)
        if self._second is None:
            return content
        second, joint = self._second
        # Passes are stated for the geolevels and queries of one product; those of both are the usual ones.
        del content["estimation"]
        return content | {
            "name": f"{plan.name}-and-{second.plan.name}",
            "geolevels": list(joint.hierarchies.spine.geolevels),
            "schema": joint.schema.to_mapping(),
            "queries": {item.group.name: item.group.name for item in self._answers()},
        }


def _write_constraint(
    out: Path, source: Measured, table: ConstraintTable, geolevels: Mapping[str, str] = MappingProxyType({})
) -> Iterator[ConstraintRows]:
    """Write one constraint; yields what its rows mean. Those on sums of siblings have no geounits to be written.

    Args:
        out: The folder.
        source: The measurements that have it.
        table: The constraint.
        geolevels: Geolevels that are written under another name.
    """
    if table.groups is not None:
        return
    spine, level = source.hierarchies.spine, len(table.lower) - 1
    geolevel, query = geolevels.get(spine.geolevels[level], spine.geolevels[level]), table.query
    for sign, end, word in ((AT_LEAST, 0, "lower"), (AT_MOST, 1, "upper")):
        # The two bounds of exact counts are one.
        if table.is_exact and sign == AT_MOST:
            continue
        name = table.name if table.is_exact else f"{table.name} {word}"
        sign_here = EQUAL if table.is_exact else sign
        frames = _frames(table, spine, level, end, sign_here)
        tidy.write_constraint(out, geolevel, name, frames, _tags(source))
        yield ConstraintRows(
            sign_here,
            query=query.name,
            geolevel=geolevel,
            name=name,
            bounds=None if table.is_exact else table.name,
            missing="refused" if table.is_exact else "unbounded",
        )


def _frames(table: ConstraintTable, spine: Spine, level: int, end: int, sign: str) -> Iterator[pl.DataFrame]:
    """The rows of one end of a constraint, some geounits at a time."""
    for start, stop in steps_of(spine.n_geounits(level)):
        values = table.bounds_of(level, start, stop)[end]
        says = values > 0 if sign == AT_LEAST else values < NO_LIMIT
        geounits, answers = np.nonzero(np.ones_like(says) if sign == EQUAL else says)
        codes = spine.geocodes[level].text.gather(start + geounits)
        yield tidy.constraint_rows(table.query, codes, answers, values[geounits, answers], sign)


class _Census2020:
    """The layout "census-2020"."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        _require_product(measured)
        self._codes = published_geocodes(measured.hierarchies.spine)

    @property
    def parts(self) -> list[str]:
        """Names of the folders and of the file that are written."""
        folders = [
            words.table_folder(name, words.ANSWERS)[0] for name in self._measured.hierarchies.spine.geolevels
        ]
        return [*folders, words.TOTALS_FILE]

    def write(self, out: Path, observer: Observer) -> None:
        """Write both tables of every geolevel, and the totals that they leave out."""
        measured = self._measured
        spine, plan = measured.hierarchies.spine, measured.plan
        writer = LayoutWriter(out, plan.schema, spine, self._codes, _tags(measured))
        watch = Stopwatch(observer)
        for level, geolevel in enumerate(spine.geolevels):
            queries = plan.strategy.queries(geolevel)
            with watch.stage(f"export {geolevel}", len(queries)):
                writer.structural_zeros(level)
                for table in measured.constraints:
                    self._write_constraint(writer, level, table)
                for query in queries:
                    self._write_answers(writer, level, plan.query(query))
                    observer.advanced(1)
        for table in measured.constraints:
            # Totals that the tables of 2020 leave out are written beside them, or an estimate from the export would
            # lack them.
            if table.is_exact and not self._holds_totals(table):
                self._write_totals(out, table)

    def _write_answers(self, writer: LayoutWriter, level: int, group: QueryGroup) -> None:
        measured = self._measured
        spine = measured.hierarchies.spine
        geolevel = spine.geolevels[level]
        for frame in noisy_parts(measured.root, measured.manifest, geolevel, group.name):
            rows = spine.locate(level, frame["geocode"])
            writer.answers(level, group, rows, frame["values"], measured.allocation)

    def _write_constraint(self, writer: LayoutWriter, level: int, table: ConstraintTable) -> None:
        last = len(table.lower) - 1
        if level > table.of_geounits or (table.is_exact and level == last and not self._holds_totals(table)):
            return
        for start, stop in steps_of(self._measured.hierarchies.spine.n_geounits(level)):
            lower, upper = table.bounds_of(level, start, stop)
            if table.is_exact:
                writer.totals(level, table.query, lower, start)
            else:
                writer.bounds(level, table.query, lower, upper, start)

    def _holds_totals(self, table: ConstraintTable) -> bool:
        """Whether the tables hold the totals of an invariant. Those of States below the US are left out, as in 2020."""
        level = len(table.lower) - 1
        return table.groups is None and level in (0, self._measured.hierarchies.spine.finest)

    def _write_totals(self, out: Path, table: ConstraintTable) -> None:
        """Write the totals that the tables leave out, with the geocodes of the tabulation geography."""
        hierarchies, level = self._measured.hierarchies, len(table.lower) - 1
        # By the geocodes of the tabulation geography, since steps of the spine may have cut the States.
        stated = stated_invariant(hierarchies, table.query.name, [_STATE])
        counts, _ = table.bounds_of(level, 0, stated.n_geounits)
        codes = stated.areas.geocodes[stated.place]
        lines = [f"{code},{count}" for code, count in zip(codes, counts[:, 0].tolist(), strict=True)]
        write_text(out / words.TOTALS_FILE, "\n".join(["geocode,count", *lines]) + "\n")


def _require_product(measured: Measured) -> None:
    """Refuse measurements that files of the layout cannot hold; raises SchemaError."""
    plan = measured.plan
    known = [load_preset(name) for name in ("pl94-persons", "pl94-units")]
    alike = [preset for preset in known if preset.attributes == plan.schema.attributes]
    invariants = [(item.query, item.geolevels) for item in plan.invariants]
    bounded = [table.query.name for table in measured.constraints if not table.is_exact]
    # The first reason that applies is given; each is one that an export cannot work around.
    wrong = (
        f"their schema '{plan.schema.name}' is none of the redistricting data"
        if not alike or alike[0].structural_zeros != plan.schema.structural_zeros
        else "their noise is no discrete Gaussian noise"
        if plan.strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN
        else "they have counts that were drawn on a lattice"
        if plan.subspace
        else "their invariants are not the totals of States, or the totals of blocks"
        if invariants not in ([("total", (_STATE,))], [("total", (words.GEOLEVELS[-1],))])
        else "their bounds are not bounds on hhgq alone"
        if bounded not in ([], ["hhgq"])
        else None
    )
    if wrong is not None:
        raise SchemaError(
            f'the measurements in {measured.root} do not fit the layout "{Layout.CENSUS_2020.value}": {wrong}. '
            f'Write the layout "{Layout.TIDY.value}", which takes measurements with any schema.',
            code="layout-unsuited",
        )


def _readme(measured: Measured, layout: Layout) -> str:
    """What the folder holds, for people."""
    manifest = with_guarantee(measured.root, measured.manifest)
    lines = [
        f"Noisy measurements of {manifest.body['name']}, in the layout {layout.value}.",
        "",
        f"Measured by: run {manifest.spender}",
        f"Privacy: {manifest.privacy['statement']}",
        *(f"Published exactly: {item}" for item in manifest.privacy["invariants"]),
        *marks_of(manifest).lines(),
        "",
        "These are unbiased answers: the true count plus noise of the variance beside it, possibly negative.",
        json.dumps(
            {"run": manifest.spender, "plan_digest": manifest.plan_digest, "protected": manifest.protected}
        ),
    ]
    return "\n".join(lines) + "\n"
