"""Slow and obvious specifications of the kernels in `tallyveil.kernels.tree.variance`."""

import numpy as np

from tallyveil.kernels.tree.variance import ChildVariances, EntityParts


def raise_parts_reference(parts: EntityParts, family: ChildVariances) -> list[dict[int, tuple[float, float]]]:
    """Specification of `raise_parts`: for each entity, (slope, spread) of every geounit above that it touches.

    The module's formula over all children; unknown ones count as equal shares of the sum.
    """
    children: dict[int, list[int]] = {}
    for child, p in enumerate(family.parent.tolist()):
        children.setdefault(p, []).append(child)
    found = []
    for entity in range(len(parts.begin) - 1):
        span = range(int(parts.begin[entity]), int(parts.begin[entity + 1]))
        given = {int(parts.geounit[i]): (float(parts.slope[i]), float(parts.spread[i])) for i in span}
        answers = {}
        for p in sorted({int(family.parent[u]) for u in given}):
            slopes = [given.get(u, (0.0, 0.0))[0] for u in children[p]]
            spread = sum(given.get(u, (0.0, 0.0))[1] for u in children[p])
            below = [float(family.below[u]) for u in children[p]]
            unknown = [b == np.inf for b in below]
            weights = [float(x) for x in unknown] if any(unknown) else below
            weights = weights if sum(weights) > 0 else [1.0] * len(weights)
            mean = sum(w * x for w, x in zip(weights, slopes, strict=True)) / sum(weights)
            for b, x in zip(below, slopes, strict=True):
                if b < np.inf:
                    spread += b * (x - mean) ** 2
                elif x != mean:
                    spread = np.inf
            answers[p] = (mean, spread)
        found.append(answers)
    return found
