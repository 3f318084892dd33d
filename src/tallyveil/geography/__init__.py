"""Geocodes and spines: the tree of geounits on which every release is built, and the steps that optimise it."""

from tallyveil.geography.areas import Hierarchies, area_spine, hierarchies_of, plain_hierarchies
from tallyveil.geography.build import Reshaped, spine_from_columns, spine_from_prefixes
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.entities import (
    EntityFamily,
    OffSpineDistances,
    Recipe,
    off_spine_distances,
    recipe_of,
)
from tallyveil.geography.optimise import (
    Branch,
    CutByEntities,
    GroupByDistance,
    GroupByMembership,
    OptimisedSpine,
    geolevels_after,
    optimise_spine,
)
from tallyveil.geography.spine import GeounitShares, Spine, TextColumn, path_total, uniform_shares
from tallyveil.geography.steps import (
    FanOutLimit,
    branch_spine,
    cut_by_entities,
    group_by_distance,
    group_by_membership,
)
from tallyveil.geography.tables import entities_from_columns, entities_from_pairs

__all__ = [
    "Branch",
    "BypassRule",
    "CutByEntities",
    "EntityFamily",
    "FanOutLimit",
    "GeounitShares",
    "GroupByDistance",
    "GroupByMembership",
    "Hierarchies",
    "OffSpineDistances",
    "OptimisedSpine",
    "Recipe",
    "Reshaped",
    "Spine",
    "TextColumn",
    "area_spine",
    "branch_spine",
    "bypass",
    "cut_by_entities",
    "entities_from_columns",
    "entities_from_pairs",
    "geolevels_after",
    "group_by_distance",
    "group_by_membership",
    "hierarchies_of",
    "off_spine_distances",
    "optimise_spine",
    "path_total",
    "plain_hierarchies",
    "recipe_of",
    "spine_from_columns",
    "spine_from_prefixes",
    "uniform_shares",
]
