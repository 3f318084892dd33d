"""Spines of geounits: build them, measure how far areas lie off them, and optimise them.

The names come from `tallyveil.geography`, where the code is.
"""

from tallyveil.geography import (
    BypassRule,
    EntityFamily,
    FanOutLimit,
    OffSpineDistances,
    OptimisedSpine,
    Spine,
    branch_spine,
    bypass,
    cut_by_entities,
    entities_from_columns,
    entities_from_pairs,
    group_by_distance,
    group_by_membership,
    off_spine_distances,
    optimise_spine,
    spine_from_columns,
    spine_from_prefixes,
)

__all__ = [
    "BypassRule",
    "EntityFamily",
    "FanOutLimit",
    "OffSpineDistances",
    "OptimisedSpine",
    "Spine",
    "branch_spine",
    "bypass",
    "cut_by_entities",
    "entities_from_columns",
    "entities_from_pairs",
    "group_by_distance",
    "group_by_membership",
    "off_spine_distances",
    "optimise_spine",
    "spine_from_columns",
    "spine_from_prefixes",
]
