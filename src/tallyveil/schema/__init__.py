"""The universe of a release: attributes, recodes, schemas, query groups and presets."""

from tallyveil.schema.attribute import Attribute
from tallyveil.schema.presets import load_preset, preset_names
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.recode import Recode
from tallyveil.schema.schema import Schema
from tallyveil.schema.structural_zero import StructuralZero

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
