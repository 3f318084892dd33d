"""The universe of a release: attributes, recodes, schemas, query groups and presets."""

from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.presets import load_preset, preset_names
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

__all__ = [
    "Attribute",
    "Factor",
    "QueryGroup",
    "Recode",
    "Schema",
    "StructuralZero",
    "load_preset",
    "preset_names",
]
