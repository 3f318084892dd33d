"""The universe of a release: attributes, recodes, schemas, query groups and presets."""

from tallyveil.universe.attribute import Attribute
from tallyveil.universe.presets import load_preset, preset_names
from tallyveil.universe.query_group import Factor, QueryGroup
from tallyveil.universe.recode import Recode
from tallyveil.universe.schema import Schema
from tallyveil.universe.structural_zero import StructuralZero

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
