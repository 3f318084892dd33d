"""A schema: the unit of record, the ordered attributes, their recodes and structural zeros, and its cells.

The unit says what one record represents, and therefore what every count counts.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, Field, PlainSerializer

from tallyveil.arrays import Integers
from tallyveil.declared import Declared, Many, Name, adapter_of, left_out, mapping_of
from tallyveil.errors import SchemaError
from tallyveil.printable import short_name
from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.counts import distinct
from tallyveil.schema.names import (
    MOST_CHARACTERS,
    PlainName,
    check_apart,
    check_distinct,
    closest_hint,
    is_noun,
)
from tallyveil.schema.query_group import Factor, QueryGroup


@dataclass(frozen=True, slots=True)
class Unit:
    """What one record represents, in the words that messages, pages and manifests use.

    Attributes:
        one: The singular, such as "household".
        many: The plural, such as "households".
    Raises:
        SchemaError: a word contains anything other than letters, spaces, hyphens and apostrophes, or is too long.
    """

    one: str
    many: str

    def __post_init__(self) -> None:
        for key, word in (("unit", self.one), ("units", self.many)):
            if not is_noun(word):
                raise SchemaError(
                    f"[schema] {key} is {str(word)[:MOST_CHARACTERS]!r}; wanted a word or words of letters, spaces, "
                    f"hyphens and apostrophes, at most {MOST_CHARACTERS} characters, such as "
                    f'"{"household" if key == "unit" else "households"}".',
                    code="schema-unit",
                )

    def counted(self, number: int) -> str:
        """A number with the unit, such as "1 household" or "1,200 households"."""
        return f"{number:,} {self.one if number == 1 else self.many}"


PERSON = Unit("person", "people")
"""The unit of a schema that does not name one."""


def unit_of(one: str | None = None, many: str | None = None) -> Unit:
    """The unit that a schema's words describe.

    Args:
        one: The singular; None for a person.
        many: The plural. The default is that of `plural_of`, and "people" for persons.
    Raises:
        SchemaError: see `Unit`.
    """
    if one is None or one == PERSON.one:
        return PERSON if many is None else Unit(PERSON.one, many)
    return Unit(one, plural_of(one) if many is None else many)


def plural_of(noun: str) -> str:
    """The plural of an English noun, or of the last word of several: cities, parishes, school districts.

    A noun that ends in a single "s", such as "towns", is taken for a plural already.
    """
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    if noun.endswith("is"):
        return f"{noun[:-2]}es"
    if noun.endswith(("ss", "us", "x", "z", "ch", "sh")):
        return f"{noun}es"
    return noun if noun.endswith("s") else f"{noun}s"


LARGEST_SIZE = 2**62
"""Largest number of cells in a schema, so that cell numbers and sums of two of them fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The universe of a release. Every combination of levels is a cell.

    A cell's number is the mixed-radix number whose digits are its level codes. The first attribute is the most
    significant (C order).

    Attributes:
        name: Name of the schema.
        attributes: Attributes in order.
        recodes: Groupings of levels that queries may name.
        structural_zeros: Cells whose count is always zero.
        unit: What one record represents.
    Raises:
        SchemaError: names clash, or a recode or structural zero does not fit the attributes.
    """

    name: str
    attributes: tuple[Attribute, ...]
    recodes: tuple[Recode, ...] = ()
    structural_zeros: tuple[StructuralZero, ...] = ()
    unit: Unit = PERSON
    # The queries of texts that were parsed before: a small release names each of its queries some forty times.
    _queries: dict[str, QueryGroup] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        where = f"schema {self.name!r}"
        check_distinct((attribute.name for attribute in self.attributes), "attribute", where)
        check_distinct(self.factor_names, "attribute or recode name", where)
        # Names become columns and files, and a file system may ignore case.
        check_apart(self.factor_names, where)
        if self.size > LARGEST_SIZE:
            raise SchemaError(
                f"{where} has {self.size} cells, more than 2**62. Drop or coarsen an attribute."
            )
        for recode in self.recodes:
            # This also checks the levels.
            recode.layers(self.attribute(recode.attribute, f"recode {recode.name!r}"))
        if self.structural_zeros:
            check_distinct((zero.name for zero in self.structural_zeros), "structural zero", where)
        for zero in self.structural_zeros:
            # Only run through, so that unknown levels are refused when the schema is made and not when it is used.
            for _ in self._barred_levels(zero):
                pass

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Names of the attributes, in order."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names that a query specification may contain: attributes, then recodes."""
        return (*self.attribute_names, *(recode.name for recode in self.recodes))

    def attribute(self, name: str, where: str | None = None) -> Attribute:
        """Find an attribute by name.

        Args:
            name: Its name.
            where: The part of the configuration that refers to it, for the message.
        Returns:
            The attribute.
        Raises:
            SchemaError: there is no attribute with this name.
        """
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        asked = where or f"schema {self.name!r}"
        raise SchemaError(
            f"{asked}: there is no attribute {short_name(name)!r}. {closest_hint(name, self.attribute_names)}"
        )

    def encode(self, codes: ArrayLike) -> NDArray[np.int64]:
        """Cell numbers of level codes.

        Args:
            codes: Shape (n, k), with one column for each attribute.
        Returns:
            Shape (n,), int64.
        Raises:
            SchemaError: the shape does not fit, or a code is not the code of a level.
        """
        table = np.asarray(codes, dtype=np.int64)
        if table.ndim != 2 or table.shape[1] != len(self.attributes):
            raise SchemaError(
                f"schema {self.name!r}: codes have shape {table.shape}, wanted (n, {len(self.attributes)})."
            )
        cells = np.zeros(len(table), dtype=np.int64)
        for column, attribute in zip(table.T, self.attributes, strict=True):
            if column.size and (column.min() < 0 or column.max() >= attribute.size):
                raise SchemaError(
                    f"schema {self.name!r}: a code of attribute {attribute.name!r} lies outside "
                    f"0 to {attribute.size - 1}."
                )
            # Horner's rule, in place: one multiplication and one addition for each attribute, without further arrays.
            cells *= attribute.size
            cells += column
        return cells

    def decode(self, cells: ArrayLike) -> NDArray[np.int64]:
        """Level codes of cell numbers, the inverse of `encode`.

        Args:
            cells: Shape (n,).
        Returns:
            Shape (n, k), int64, with one column for each attribute.
        Raises:
            SchemaError: a cell lies outside the schema.
        """
        rest = self._checked(cells)
        codes = np.empty((len(rest), len(self.attributes)), dtype=np.int64)
        for axis in reversed(range(len(self.attributes))):
            rest, codes[:, axis] = np.divmod(rest, self.attributes[axis].size)
        return codes

    def possible(self, cells: ArrayLike) -> NDArray[np.bool_]:
        """Whether records may lie in each of some cells.

        Args:
            cells: Shape (n,).
        Returns:
            Shape (n,): False for a cell in a structural zero.
        Raises:
            SchemaError: a cell lies outside the schema.
        """
        wanted = self._checked(cells)
        if wanted.size > self.size:
            # There are more requests than cells, so compute the answer for each cell once and look it up.
            return self._possible(np.arange(self.size, dtype=np.int64))[wanted]
        return self._possible(wanted)

    def _possible(self, wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
        possible = np.ones(wanted.shape, dtype=np.bool_)
        # Level codes of each attribute that zeros name. Each is computed once, since divisions of many cells take time.
        codes: dict[int, NDArray[np.int64]] = {}
        for zero in self.structural_zeros:
            # A cell is in a zero if its level is in every one of the zero's level sets.
            barred = np.ones(wanted.shape, dtype=np.bool_)
            for axis, levels in self._barred_levels(zero):
                if axis not in codes:
                    codes[axis] = wanted // math.prod(self.shape[axis + 1 :]) % levels.size
                barred &= levels[codes[axis]]
            possible &= ~barred
        return possible

    def n_possible(self) -> int:
        """Number of cells in no structural zero. Levels that every zero treats alike are counted together."""
        zeros = self.barred_levels()
        shape = [1] * len(self.attributes)
        barred, counts = [np.ones(shape, np.bool_) for _ in zeros], np.ones(shape, np.int64)
        for axis, size in enumerate(self.shape):
            marks = np.array([zero.get(axis, np.ones(size, np.bool_)) for zero in zeros]).reshape(
                len(zeros), size
            )
            # Levels with the same marks in all zeros behave alike; a schema of millions of cells shrinks to a few
            # classes.
            alike, n_levels = np.unique(marks, axis=1, return_counts=True)
            along = [-1 if other == axis else 1 for other in range(len(shape))]
            barred = [
                zero_barred & level_marks.reshape(along)
                for zero_barred, level_marks in zip(barred, alike, strict=True)
            ]
            counts = counts * n_levels.reshape(along)
        impossible = np.zeros(counts.shape, np.bool_)
        for zero_barred in barred:
            impossible |= zero_barred
        return int(counts[~impossible].sum())

    def possible_answers(self, group: QueryGroup) -> NDArray[np.int64]:
        """The answers of a query in which at least one possible cell counts, ascending.

        The cells are not visited one by one, so that the schema may have many millions of them.
        """
        return possible_answers(group, self.barred_levels())

    def barred_levels(self) -> list[dict[int, NDArray[np.bool_]]]:
        """For each structural zero, which levels it bars, by the position of each attribute that it names."""
        return [dict(self._barred_levels(zero)) for zero in self.structural_zeros]

    def query(self, spec: str) -> QueryGroup:
        """Read a query specification.

        Args:
            spec: "total", "detailed", or names of attributes and recodes joined by "*", with each attribute at most
                once.
        Returns:
            The query group; its name is the specification.
        Raises:
            SchemaError: a name is unknown, or two factors belong to the same attribute.
        """
        query = self._queries.get(spec)
        if query is None:
            named = self._asked_factors(spec)
            factors = tuple(named.get(attribute.name) or _sum_out(attribute) for attribute in self.attributes)
            query = self._queries[spec] = QueryGroup(spec, factors)
        return query

    def known_query(self, spec: str) -> QueryGroup | None:
        """The query of a specification, as in `query`; None if the schema has no such query."""
        try:
            return self.query(spec)
        except SchemaError:
            return None

    def without_unused_overlaps(self, specs: Iterable[str]) -> "Schema":
        """The schema without the overlapping recodes that no given query specification names.

        A preset has overlapping recodes that most releases do not use. A release that does not name them then has the
        same schema, and so the same digest, as if the preset did not have them.
        """
        named = {name.strip() for spec in specs for name in spec.split("*")}
        # Recodes without overlaps stay: they have always been part of the digest.
        used = tuple(item for item in self.recodes if not item.overlapping or item.name in named)
        return self if len(used) == len(self.recodes) else replace(self, recodes=used)

    def cell_labels(self, cells: ArrayLike) -> list[str]:
        """The meaning of cells, one line each, such as "votingage=18_plus * hispanic=hispanic".

        Args:
            cells: Shape (n,).
        Returns:
            One line for each cell.
        Raises:
            SchemaError: a cell lies outside the schema.
        """
        return [
            " * ".join(f"{a.name}={a.levels[code]}" for a, code in zip(self.attributes, codes, strict=True))
            for codes in self.decode(cells).tolist()
        ]

    def to_mapping(self) -> dict[str, Any]:
        """Plain data with the keys of `SchemaTable`."""
        # The usual unit is not written, so that schemas with it keep their digest.
        named = self.unit != PERSON
        return mapping_of(
            SchemaTable(
                name=self.name,
                attributes=self.attributes,
                recodes=self.recodes,
                structural_zeros=self.structural_zeros,
                unit=self.unit.one if named else None,
                units=self.unit.many if named else None,
            )
        )

    def digest(self) -> bytes:
        """SHA-256 of the schema as JSON. Equal schemas, and only they, have equal digests.

        Keys keep their order, because the order of a recode's groups determines the numbers of the answers.
        """
        text = json.dumps(self.to_mapping(), ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).digest()

    def _asked_factors(self, spec: str) -> dict[str, Factor]:
        """The factors that a specification names, by attribute."""
        if spec == "total":
            return {}
        named = (name.strip() for name in spec.split("*"))
        names: Iterable[str] = self.attribute_names if spec == "detailed" else named
        factors: dict[str, Factor] = {}
        for name in names:
            factor = self._factor(name, spec)
            if factor.attribute in factors:
                other = factors[factor.attribute].name
                raise SchemaError(
                    f"query {short_name(spec)!r}: factors {other!r} and {name!r} are both of attribute "
                    f"{factor.attribute!r}. Keep one, or ask two queries."
                )
            factors[factor.attribute] = factor
        return factors

    def _factor(self, name: str, spec: str) -> Factor:
        for attribute in self.attributes:
            if attribute.name == name:
                codes = np.arange(attribute.size, dtype=np.int32)
                codes.flags.writeable = False
                return Factor(attribute.name, name, (codes,), attribute.levels)
        for recode in self.recodes:
            if recode.name == name:
                return Factor(
                    recode.attribute, name, recode.layers(self.attribute(recode.attribute)), recode.labels
                )
        hint = closest_hint(name, ("total", "detailed", *self.factor_names))
        raise SchemaError(
            f"query {short_name(spec)!r}: schema {self.name!r} has no attribute or recode {short_name(name)!r}. {hint}"
        )

    def _barred_levels(self, zero: StructuralZero) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """For each level set of a structural zero: the axis, and whether each level code is in the set."""
        where = f"structural zero {zero.name!r}"
        for name, levels in zero.levels:
            attribute = self.attribute(name, where)
            wanted = set(levels)  # a list of hundreds of levels would be searched slowly
            barred = np.array([level in wanted for level in attribute.levels], dtype=np.bool_)
            for unknown in sorted(wanted.difference(attribute.levels)):
                hint = closest_hint(unknown, attribute.levels)
                raise SchemaError(f"{where}: attribute {name!r} has no level {short_name(unknown)!r}. {hint}")
            yield self.attributes.index(attribute), barred

    def _checked(self, cells: ArrayLike) -> NDArray[np.int64]:
        wanted = np.asarray(cells, dtype=np.int64)
        if wanted.ndim != 1:
            raise SchemaError(f"schema {self.name!r}: cells have shape {wanted.shape}, wanted (n,).")
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self.size):
            # The message does not show the cell, because it may come from a record.
            raise SchemaError(f"schema {self.name!r}: a cell lies outside 0 to {self.size - 1}.")
        return wanted


def _sum_out(attribute: Attribute) -> Factor:
    """The factor of an attribute that a query does not name."""
    codes = np.zeros(attribute.size, dtype=np.int32)
    codes.flags.writeable = False
    return Factor(attribute.name, None, (codes,), ("",))


ZeroLevels = dict[int, NDArray[np.bool_]]
"""One structural zero: for each attribute that it names, by position, whether each level is in its set."""

States = dict[int, Integers]
"""Answers so far, sorted, by the set of structural zeros that contain the level codes so far; bit z is zero z."""


def possible_answers(group: QueryGroup, zeros: Sequence[ZeroLevels]) -> Integers:
    """The answers of a query in which at least one possible cell counts, ascending.

    Args:
        group: The query.
        zeros: The structural zeros of its schema.
    """
    # At the start, no attribute is decided, so that every zero may still contain the cell: all bits are set.
    states: States = {(1 << len(zeros)) - 1: np.zeros(1, dtype=np.int64)}
    for axis, factor in enumerate(group.factors):
        # After its last attribute a zero is decided: answers whose bit is still set have no possible cell.
        closed = sum(1 << bit for bit, zero in enumerate(zeros) if max(zero) == axis)
        states = _with_attribute(states, factor, _groups_by_zeros(factor, axis, zeros), closed)
    return _union(list(states.values()))


def _groups_by_zeros(factor: Factor, axis: int, zeros: Sequence[ZeroLevels]) -> States:
    """The groups that have a level, by the set of structural zeros that contain this level."""
    parts_by_zeros: dict[int, list[Integers]] = {}
    layers = np.stack(factor.layers)
    for level in range(factor.n_levels):
        inside = sum(1 << bit for bit, zero in enumerate(zeros) if axis not in zero or zero[axis][level])
        groups = layers[:, level].astype(np.int64)
        parts_by_zeros.setdefault(inside, []).append(groups[groups >= 0])
    return {inside: _union(parts) for inside, parts in parts_by_zeros.items()}


def _with_attribute(states: States, factor: Factor, groups: States, closed: int) -> States:
    """The states after one more attribute, without those in a structural zero that names no later attribute."""
    parts_by_zeros: dict[int, list[Integers]] = {}
    for before, answers in states.items():
        for zeros_of_level, places in groups.items():
            if not before & zeros_of_level & closed:
                joined = np.add.outer(answers * factor.size, places).ravel()
                # Both sets of zeros must contain the level codes; a zero that either leaves has lost its bit for good.
                parts_by_zeros.setdefault(before & zeros_of_level, []).append(joined)
    return {inside: _union(parts) for inside, parts in parts_by_zeros.items()}


def _union(parts: list[Integers]) -> Integers:
    """The numbers in any of some arrays, ascending."""
    return distinct(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class SchemaTable(Declared):
    """A schema as a release file, a preset file and a plan state it: a preset, or attributes of one's own."""

    preset: Annotated[
        Name | None,
        left_out(None),
        Field(
            description='"pl94-persons", "pl94-units", "dhc-persons", "dhc-units", "dhc-units-sizes" or "race-age".'
        ),
    ] = None
    name: Annotated[PlainName | None, Field(description="Name of a schema of your own.")] = None
    attributes: Annotated[Many[Attribute], Field(description="The attributes of a record, in order.")] = ()
    recodes: Annotated[Many[Recode], Field(description="Groupings of levels, for queries.")] = ()
    structural_zeros: Annotated[
        Many[StructuralZero], Field(description="Cells in which no record can be.")
    ] = ()
    # The usual unit is left out, so that schemas with it keep their digest.
    unit: Annotated[
        Name | None,
        left_out(None),
        Field(description='What one record is, in the singular. Default: "person".'),
    ] = None
    units: Annotated[
        Name | None,
        left_out(None),
        Field(description="Plural of unit. Default: by the rules of English."),
    ] = None

    def __post_init__(self) -> None:
        is_written_out = self.name is not None and bool(self.attributes)
        anything = self.name or self.unit or self.attributes or self.recodes or self.structural_zeros
        if self.preset is None and not is_written_out:
            raise ValueError("give a preset, or a name and attributes of your own")
        if self.preset is not None and anything:
            raise ValueError(
                "a preset takes no other keys; to change one, write out name, attributes and recodes"
            )
        if self.units is not None and self.unit is None:
            raise ValueError("units is the plural of unit: give unit as well")

    def schema(self) -> Schema:
        """The schema that is written out here; raises SchemaError if its parts do not fit each other."""
        return Schema(
            self.name or "",
            self.attributes,
            self.recodes,
            self.structural_zeros,
            unit_of(self.unit, self.units),
        )


def schema_from_mapping(table: Mapping[str, Any]) -> Schema:
    """The schema that `Schema.to_mapping` describes.

    Raises:
        SchemaError: its parts do not fit each other.
    """
    read: SchemaTable = adapter_of(SchemaTable).validate_python(table)
    return read.schema()


StatedSchema = Annotated[
    Schema,
    BeforeValidator(lambda table: table if isinstance(table, Schema) else schema_from_mapping(table)),
    PlainSerializer(Schema.to_mapping),
]
"""A schema that a plan writes out."""
