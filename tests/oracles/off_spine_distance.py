"""Slow and obvious specifications of the kernels in `tallyveil.kernels.tree.off_spine_distance`."""

from tallyveil.arrays import Integers
from tallyveil.kernels.tree.off_spine_distance import TouchedGeounits


def raise_level_reference(
    touched: TouchedGeounits, parent: Integers, n_children: Integers
) -> list[dict[int, tuple[int, int]]]:
    """Specification of `raise_level`: for each entity, (inner, outer) of every geounit above that it touches."""
    begin, geounit, inner, outer = (array.tolist() for array in touched)
    children: dict[int, list[int]] = {}
    for child, p in enumerate(parent.tolist()):
        children.setdefault(p, []).append(child)
    found = []
    for entity in range(len(begin) - 1):
        near: dict[int, int] = {}
        far: dict[int, int] = {}
        for i in range(begin[entity], begin[entity + 1]):
            near[geounit[i]] = min(inner[i], outer[i] + 1)
            far[geounit[i]] = min(outer[i], inner[i] + 1)
        found.append(
            {
                p: (sum(near.get(v, 0) for v in below), sum(far.get(v, 1) for v in below))
                for p, below in children.items()
                if any(v in near for v in below)
            }
        )
    return found
