"""Spines of geounits: build them, measure how far areas lie off them, and optimise them.

The code is in `tallyveil.geography`.
"""

from tallyveil.geography.build import spine_from_columns as spine_from_columns
from tallyveil.geography.build import spine_from_prefixes as spine_from_prefixes
from tallyveil.geography.bypass import BypassRule as BypassRule
from tallyveil.geography.bypass import bypass as bypass
from tallyveil.geography.entities import EntityFamily as EntityFamily
from tallyveil.geography.entities import OffSpineDistances as OffSpineDistances
from tallyveil.geography.entities import off_spine_distances as off_spine_distances
from tallyveil.geography.optimise import OptimisedSpine as OptimisedSpine
from tallyveil.geography.optimise import optimise_spine as optimise_spine
from tallyveil.geography.spine import Spine as Spine
from tallyveil.geography.steps import FanOutLimit as FanOutLimit
from tallyveil.geography.steps import branch_spine as branch_spine
from tallyveil.geography.steps import cut_by_entities as cut_by_entities
from tallyveil.geography.steps import group_by_distance as group_by_distance
from tallyveil.geography.steps import group_by_membership as group_by_membership
from tallyveil.geography.tables import entities_from_columns as entities_from_columns
from tallyveil.geography.tables import entities_from_pairs as entities_from_pairs

__all__: list[str]
