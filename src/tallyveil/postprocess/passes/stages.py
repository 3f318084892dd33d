"""Names of the stages of outer passes."""

from typing import Final

from tallyveil.geography.spine import Spine
from tallyveil.plans.estimating import EstimationPlan

WHOLE_CELLS: Final = "whole cells"
"""Stage that puts the counts of all passes together."""


def pass_stage(number: int, geolevel: str) -> str:
    """Name of the stage of a pass at a geolevel; passes are counted from 1."""
    return f"pass {number} of {geolevel}"


def support_stage(geolevel: str) -> str:
    """Name of the stage that writes the noisy answers on the support of the published counts."""
    return f"measurements on the support of {geolevel}"


def stages_of_passes(plan: EstimationPlan, spine: Spine) -> list[str]:
    """Names of the stages of all passes, in order."""
    passes = range(1, len(plan.outer) + 1)
    names = [*(pass_stage(number, level) for number in passes for level in spine.geolevels), WHOLE_CELLS]
    if plan.measurements == "support":
        names += [support_stage(level) for level in spine.geolevels[1:]]
    return names
