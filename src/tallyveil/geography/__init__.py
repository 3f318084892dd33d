"""Geocodes and spines: the tree of geounits on which every release is built, and the steps that optimise it."""

from tallyveil.geography.aian import branch_spine
from tallyveil.geography.areas import Hierarchies, area_spine, hierarchies_of, plain_hierarchies
from tallyveil.geography.block_groups import group_by_membership
from tallyveil.geography.branch_by_entities import cut_by_entities
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.columns import TextColumn
from tallyveil.geography.distance import OffSpineDistances, off_spine_distances
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.entity_tables import entities_from_columns, entities_from_pairs
from tallyveil.geography.fan_out import FanOutLimit
from tallyveil.geography.optimise import (
    Branch,
    CutByEntities,
    GroupByDistance,
    GroupByMembership,
    OptimisedSpine,
    geolevels_after,
    optimise_spine,
)
from tallyveil.geography.recipe import Recipe, recipe_of
from tallyveil.geography.respine import Reshaped
from tallyveil.geography.shares import GeounitShares, path_total, uniform_shares
from tallyveil.geography.spine import Spine
from tallyveil.geography.tract_groups import group_by_distance

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
