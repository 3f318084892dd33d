"""Geocodes and spines: the tree of geounits every release is built on."""

from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.columns import TextColumn
from tallyveil.geography.spine import Spine

__all__ = ["Spine", "TextColumn", "spine_from_columns", "spine_from_prefixes"]
