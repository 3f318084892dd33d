"""The sizes that `tallyveil plan` predicts memory, time and disk for: from its flags, or from the public geography."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallyveil.budget.allocation import Allocation
    from tallyveil.geography.areas import AreaChange
    from tallyveil.plans.release import ReleasePlan
    from tallyveil.plans.resources import Resources


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the flags say of sizes.

    Attributes:
        blocks: Number of finest geounits, or None.
        people: Number of records, or None.
        geography: Whether the geography table is opened.
    """

    blocks: int | None
    people: int | None
    geography: bool


def opened(
    loaded: "ReleasePlan", *, geography: bool
) -> "tuple[Allocation | None, tuple[AreaChange, ...], tuple[str, ...]]":
    """The budget of every geounit, how the spine changes each kind of area, and warnings of what is seldom meant.

    Args:
        loaded: The plan.
        geography: Whether the public geography, entities and bounds are opened. If not, the schema alone is looked at.
    """
    from tallyveil.plans.advice import impossible_levels
    from tallyveil.products.topdown.run.public import read_public

    if not geography:
        return None, (), impossible_levels(loaded.schema)
    public = read_public(loaded)
    return public.allocation, public.hierarchies.changes, public.warnings


def predicted(loaded: "ReleasePlan", sizes: Sizes, allocation: "Allocation | None") -> "Resources | None":
    """What a run will need for the sizes that the flags give; None if no flag gives a size."""
    from tallyveil.plans.resources import predict
    from tallyveil.plans.sizes import sizes_of_blocks, sizes_of_spine

    if sizes.blocks is not None:
        return predict(loaded, sizes_of_blocks(len(loaded.geolevels), sizes.blocks, sizes.people))
    if allocation is not None:
        return predict(loaded, sizes_of_spine(allocation.spine, sizes.people))
    return None
