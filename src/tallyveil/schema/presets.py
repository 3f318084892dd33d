"""Schemas that come with the package, stored as TOML data."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from tallyveil.errors import SchemaError
from tallyveil.printable import short_name
from tallyveil.schema.names import closest_hint
from tallyveil.schema.schema import Schema, schema_from_mapping

_FOLDER = resources.files("tallyveil.schema") / "presets"


def preset_names() -> tuple[str, ...]:
    """Names of the presets, sorted."""
    files = (entry.name for entry in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml")))


def load_preset(name: str) -> Schema:
    """Read a schema that comes with the package.

    Args:
        name: "pl94-persons" (redistricting data, 2,016 cells), "pl94-units" (its housing units, 2 cells), "dhc-persons"
            and "dhc-units" (Demographic and Housing Characteristics; docs/dhc.md), "dhc-units-sizes" (with recodes for
            sizes that add up to the people) or "race-age" (16 cells).
    Returns:
        The schema.
    Raises:
        SchemaError: there is no such preset.
    """
    known = preset_names()
    if name not in known:
        raise SchemaError(f"there is no schema preset {short_name(name)!r}. {closest_hint(name, known)}")
    return _schema(_table(name))


def titles_of(schema: Schema) -> dict[str, str]:
    """How attributes and recodes are called on pages, by name.

    Args:
        schema: A schema. If it has the name of a preset, those of its attributes and recodes that are the preset's have
            the preset's titles. All others are called by their names, which their author has chosen.
    """
    if schema.name not in preset_names():
        return {}
    table = _table(schema.name)
    preset = _schema(table)
    # Only where the attribute is the preset's own: an attribute of another author may share its name and mean another
    # thing.
    names = [attribute.name for attribute in preset.attributes if attribute in schema.attributes]
    names += [recode.name for recode in preset.recodes if recode in schema.recodes]
    return {name: table["titles"][name] for name in names}


@cache
def _table(name: str) -> Mapping[str, Any]:
    """The content of a preset file. With `extends`, its recodes and titles come after those of that preset."""
    table = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    if "extends" not in table:
        return table
    whole = _table(table.pop("extends"))
    # Lists would be replaced by `|`, so that those of both files are joined first.
    extended = {
        "recodes": [*whole["recodes"], *table["recodes"]],
        "titles": {**whole["titles"], **table["titles"]},
    }
    return {**whole, **table, **extended}


def _schema(table: Mapping[str, Any]) -> Schema:
    return schema_from_mapping({key: value for key, value in table.items() if key != "titles"})
