"""List of the exhibits that can be recomputed."""

from typing import Final

from tallyveil_studies.exhibit import Exhibit
from tallyveil_studies.geographic_spines import bounds, rhode_island, small_spines, tract_groups

EXHIBITS: Final = (
    Exhibit("figure-1", "Figure 1: the AIAN spine", small_spines.aian_spine),
    Exhibit("figure-2", "Figure 2: the workload of a small spine", small_spines.workload_matrix),
    Exhibit("variances", "Section 3.1: variances of the discrete laws", small_spines.discrete_variances),
    Exhibit("fan-out", "Section 4: the fan-out of a tract of 100 blocks", small_spines.fan_out),
    Exhibit("theorem-2", "Theorem 2: its boundary and its converse", small_spines.boundary),
    Exhibit("remark-1", "Remark 1: a parent and its children alone", small_spines.remark_1),
    Exhibit("remark-2", "Remark 2: more sub-intervals", small_spines.more_sub_intervals),
    Exhibit("alternative", "Section 3.1: bypassing by the sum of squares", rhode_island.made_up),
    Exhibit(
        "alternative-rhode-island",
        "Section 3.1: bypassing by the sum of squares, Rhode Island",
        rhode_island.rhode_island,
    ),
    Exhibit("rhode-island-distances", "Off-spine distances in Rhode Island", rhode_island.distances),
    Exhibit("rhode-island-errors", "Standard deviations in Rhode Island", rhode_island.errors),
    Exhibit("groups", "Groups beside the best that any could do, made-up states", bounds.made_up_groups),
    Exhibit(
        "rhode-island-groups",
        "Groups beside the best that any could do, Rhode Island",
        bounds.rhode_island_groups,
    ),
    Exhibit(
        "tract-groups",
        "Tract groups beside the best that any could do, made-up states",
        tract_groups.made_up_tract_groups,
    ),
    Exhibit(
        "rhode-island-tract-groups",
        "Tract groups beside the best that any could do, Rhode Island",
        tract_groups.rhode_island_tract_groups,
    ),
)
