"""Measurements of two products about the same people, as questions about the cells of the first.

Each attribute of the second product must be an attribute of the first with the same levels, or a recode of one whose
groups have the labels of these levels. Then every query of the second is a query of the first product's schema, with
recodes of its own. So all answers of both can be imported as those of one product: their joint estimate weights each by
its variance, and what is spent is the sum of both.

Where geounits were bypassed, their variances differ from those of other geounits by a factor, and the factor is not the
same in both products. Then the geolevels of the second product stand in the joint tree by themselves, each above the
geolevel of the first that has the same geounits. For example, each geounit of County_2 has one child, which is the same
geounit at County. Both have the same counts, so that the joint estimate is the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import SchemaError
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Geocodes, Spine
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.measured import Measured
from tallyveil.schema.attribute import Recode
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

_EVERYBODY: Final = "everybody"
"""Name and label of the recode by which the total of the second product is told from that of the first."""


@dataclass(frozen=True, slots=True, eq=False)
class JointQuery:
    """A query of the second product as one of the first product's schema.

    Attributes:
        group: The query.
        order: For each of its answers, the number of the answer of the second product that counts the same.
    """

    group: QueryGroup
    order: Integers

    def in_order(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A part of the second product's answers with its lists in the order of the query."""
        if frame.is_empty():
            return frame
        shape = (frame.height, self.order.size)
        values = frame["values"].explode(empty_as_null=False).to_numpy().reshape(shape)[:, self.order]
        moved = pl.Series("values", values.ravel()).reshape(shape).cast(frame["values"].dtype)
        return frame.with_columns(moved)


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """What two folders of measurements are together.

    Attributes:
        schema: That of the first, with a recode for each factor of the queries of the second.
        hierarchies: The finer one of the two, with the geolevels of the second where they stand by themselves.
        geolevels: For each geolevel of the second, its name in the joint tree.
        queries: Every query of the second, and of its constraints, by its name.
        constraints: Exact counts and bounds of the second on these queries, without exact totals that the first has.
    """

    schema: Schema
    hierarchies: Hierarchies
    geolevels: Mapping[str, str]
    queries: Mapping[str, JointQuery]
    constraints: tuple[ConstraintTable, ...]


def join(first: Measured, second: Measured) -> Joint:
    """Find how the measurements of a second product are questions about the cells of a first.

    Raises:
        SchemaError: they are of one run, their trees differ, their noise cannot be combined, the cells do not allow it,
            or their exact totals differ. The message names what does not fit.
    """
    for measured in (first, second):
        _require_plain(measured)
    if _origins(first) & _origins(second):
        # The same noise twice would count as two independent answers, and variances would be too small.
        raise _unfit(
            first, second, "some of their answers were drawn by one run, so that noise would be counted twice"
        )
    if first.plan.neighbours is not second.plan.neighbours:
        raise _unfit(first, second, "their guarantees are for different neighbours")
    hierarchies = _finer(first, second)
    homes = {name: _home(first, second, name) for name in second.plan.schema.attribute_names}
    attributes = [next(iter(home)) for home in homes.values()]
    if twice := sorted({name for name in attributes if attributes.count(name) > 1}):
        raise _unfit(first, second, f"several attributes of the second are groups of {', '.join(twice)}")
    wanted = {name: second.plan.query(name) for name in second.plan.strategy.every_query}
    wanted |= {table.query.name: table.query for table in second.constraints}
    recodes = _recodes(first.plan.schema, homes, wanted.values())
    schema = replace(first.plan.schema, recodes=(*first.plan.schema.recodes, *recodes.values()))
    queries = {name: _joint_query(schema, recodes, group) for name, group in wanted.items()}
    constraints = tuple(
        _moved(table, queries[table.query.name])
        for table in second.constraints
        if not _is_known(first, second, table)
    )
    geolevels = {name: name for name in second.hierarchies.spine.geolevels}
    if any(measured.hierarchies.shares is not None for measured in (first, second)):
        geolevels |= _names_apart(first.hierarchies.spine.geolevels, second.hierarchies.spine.geolevels)
        hierarchies = _apart(hierarchies, geolevels)
    return Joint(schema, hierarchies, geolevels, queries, constraints)


def _joint_query(schema: Schema, recodes: Mapping[str, Recode], group: QueryGroup) -> JointQuery:
    """A query of the second product by the recodes that stand for its factors."""
    numbers = np.arange(group.size, dtype=np.int64)
    if not group.factor_names:
        return JointQuery(schema.query(recodes[_EVERYBODY].name), numbers)
    factors = {recodes[name].name: place for place, name in enumerate(group.factor_names)}
    joint = schema.query("*".join(factors))
    # The second product numbers answers along its own attributes, and the first along its own.
    axes = [factors[name] for name in joint.factor_names]
    shape = [factor.size for factor in group.named_factors]
    return JointQuery(joint, numbers.reshape(shape).transpose(axes).ravel())


def _recodes(
    schema: Schema,
    homes: Mapping[str, Mapping[str, Mapping[str, tuple[str, ...]]]],
    queries: Iterable[QueryGroup],
) -> dict[str, Recode]:
    """By factor of the second product's queries, the recode of the first product's schema that has its groups."""
    known = set(schema.factor_names)
    recodes: dict[str, Recode] = {}

    def add(name: str, attribute: str, groups: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
        number = next(number for number in range(2, len(known) + 3) if f"{name}_{number}" not in known)
        levels = [level for _, group in groups for level in group]
        recodes[name] = Recode(f"{name}_{number}", attribute, groups, len(set(levels)) < len(levels))
        known.add(f"{name}_{number}")

    for group in queries:
        for factor in group.named_factors:
            if factor.name is not None and factor.name not in recodes:
                ((attribute, levels),) = homes[factor.attribute].items()
                add(factor.name, attribute, tuple(_groups(factor, list(levels.values()))))
        if not group.named_factors and _EVERYBODY not in recodes:
            first = schema.attributes[0]
            add(_EVERYBODY, first.name, ((_EVERYBODY, first.levels),))
    return recodes


def _groups(factor: Factor, levels: list[tuple[str, ...]]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """The groups of a factor as levels of the first product's attribute.

    Args:
        factor: Of the second product.
        levels: For each level of its attribute, the levels of the first product's attribute that it stands for.
    """
    for number, label in enumerate(factor.labels):
        inside = [
            level for level in range(len(levels)) if any(layer[level] == number for layer in factor.layers)
        ]
        yield label, tuple(name for level in inside for name in levels[level])


def _origins(measured: Measured) -> set[str]:
    """What tells whether answers are the same: the runs that drew them, and the hash of imported files."""
    imported = measured.manifest.body.get("imported")
    return {*measured.manifest.measured_by, *([] if imported is None else [imported["source_sha256"]])}


def _home(first: Measured, second: Measured, name: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """The attribute of the first product that has an attribute of the second, and the levels each of its levels is."""
    schema = first.plan.schema
    levels = second.plan.schema.attribute(name).levels
    fitting: list[dict[str, dict[str, tuple[str, ...]]]] = []
    for attribute in schema.attributes:
        if set(attribute.levels) == set(levels):
            # Of several with these levels, such as yes and no, the name tells which is meant.
            fitting.append({attribute.name: {level: (level,) for level in levels}})
            if attribute.name == name:
                return fitting[-1]
    for recode in schema.recodes:
        groups = dict(recode.groups)
        whole = sum(map(len, groups.values())) == schema.attribute(recode.attribute).size
        # A recode that leaves levels out, or counts them twice, does not say where everybody is.
        if set(groups) == set(levels) and whole and not recode.overlapping:
            fitting.append({recode.attribute: {level: tuple(groups[level]) for level in levels}})
    sets = [
        {(where, key, *sorted(value)) for where, parts in home.items() for key, value in parts.items()}
        for home in fitting
    ]
    if not fitting or any(other != sets[0] for other in sets):
        shown = ", ".join(levels[:8]) + (", ..." if len(levels) > 8 else "")
        what = "no attribute or recode" if not fitting else "several different attributes or recodes"
        raise _unfit(
            first,
            second,
            f"the second has the attribute '{name}' with the levels {shown}, and the schema of the first has {what} "
            "with these as levels or as labels of groups that hold all levels",
        )
    return fitting[0]


def _finer(first: Measured, second: Measured) -> Hierarchies:
    """The finer one of two trees, which begins with the other; raises SchemaError."""
    trees = sorted((first.hierarchies, second.hierarchies), key=lambda item: item.spine.n_levels)
    coarse, fine = (item.spine for item in trees)
    for level, name in enumerate(coarse.geolevels):
        same = (
            name == fine.geolevels[level]
            and list(coarse.geocodes[level]) == list(fine.geocodes[level])
            and (level == 0 or np.array_equal(coarse.child_offsets[level - 1], fine.child_offsets[level - 1]))
        )
        if not same:
            raise _unfit(
                first,
                second,
                f"their geounits differ at {name} and {fine.geolevels[level]}. Import both with the same geolevels "
                "from the root down and the same geocodes; one may go on to finer geolevels",
            )
    return trees[1]


def _names_apart(first: Sequence[str], second: Sequence[str]) -> dict[str, str]:
    """For each geolevel that both products have, the name that the second's gets."""
    known = {*first, *second}
    numbers = count(2)
    number = next(number for number in numbers if not known & {f"{name}_{number}" for name in second})
    return {name: f"{name}_{number}" for name in second if name in first}


def _apart(hierarchies: Hierarchies, geolevels: Mapping[str, str]) -> Hierarchies:
    """The tree with each renamed geolevel once more, above the geolevel with the same geounits."""
    spine = hierarchies.spine
    names: list[str] = []
    codes: list[Geocodes] = []
    offsets: list[Integers] = []
    for level, (name, text) in enumerate(zip(spine.geolevels, spine.geocodes, strict=True)):
        if level:
            offsets.append(spine.child_offsets[level - 1])
        if geolevels.get(name, name) != name:
            names.append(geolevels[name])
            codes.append(text)
            # Each geounit has itself as its only child.
            offsets.append(np.arange(len(text) + 1, dtype=np.int64))
        names.append(name)
        codes.append(text)
    return replace(hierarchies, spine=Spine(tuple(names), tuple(codes), tuple(offsets)), shares=None)


def _require_plain(measured: Measured) -> None:
    """Refuse noise that an import cannot state by its variances; raises SchemaError."""
    strategy = measured.plan.strategy
    wrong = (
        "its noise is no discrete Gaussian noise"
        if strategy.mechanism is not Mechanism.DISCRETE_GAUSSIAN
        else "a person changes several of its records"
        if strategy.records != 1
        else "it has counts that were drawn on a lattice"
        if measured.plan.subspace
        else None
    )
    if wrong is not None:
        raise SchemaError(
            f"the measurements in {measured.root} cannot be joined with others: {wrong}. Use them by themselves.",
            code="joint-measurements",
        )


def _is_known(first: Measured, second: Measured, table: ConstraintTable) -> bool:
    """Whether the first product has the same exact totals; raises SchemaError where they differ."""
    if not table.is_exact or table.groups is not None or table.query.factor_names:
        return False
    known = False
    for other in first.constraints:
        if other.is_exact and other.groups is None and not other.query.factor_names:
            # Totals of coarser geounits follow from those of finer ones.
            both = min(len(other.lower), len(table.lower)) - 1
            if not np.array_equal(other.lower[both], table.lower[both]):
                raise _unfit(
                    first, second, "their exact totals differ, so that they are not of the same people"
                )
            known |= len(table.lower) <= len(other.lower)
    return known


def _moved(table: ConstraintTable, query: JointQuery) -> ConstraintTable:
    """A constraint of the second product on the joint query."""
    lower = tuple(rows[:, query.order] for rows in table.lower)
    upper = lower if table.is_exact else tuple(rows[:, query.order] for rows in table.upper)
    return replace(table, name=f"{table.name} of the second", query=query.group, lower=lower, upper=upper)


def _unfit(first: Measured, second: Measured, why: str) -> SchemaError:
    return SchemaError(
        f"the measurements in {second.root} cannot be joined with those in {first.root}: {why}. Use them one by "
        "one, or import one of them with a description that fits the other.",
        code="joint-measurements",
    )
