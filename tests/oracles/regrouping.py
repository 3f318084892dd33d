"""Slow and obvious specifications of the kernels in `tallyveil.kernels.tree.variance`."""

from tallyveil.arrays import Integers
from tallyveil.kernels.tree.variance import TOLERANCE, Container


def regroup_reference(container: Container, group_of: Integers, passes: int) -> tuple[float, float]:
    """Specification of `regroup`: every trial computes the objective from the groups, by its definition."""
    n = container.below.size
    span = [range(int(container.begin[c]), int(container.begin[c + 1])) for c in range(n)]
    slopes = [{int(container.entity[i]): float(container.slope[i]) for i in one} for one in span]

    def objective(groups: list[int]) -> float:
        below, carried, parts, total = [], [], [], 0.0
        spread = [0.0] * container.weight.size
        for g in sorted(set(groups)):
            members = [c for c in range(n) if groups[c] == g]
            s = sum(container.below[c] for c in members)
            means = []
            for k in range(container.weight.size):
                a = [slopes[c].get(k, 0.0) for c in members]
                mean = sum(container.below[c] * one for c, one in zip(members, a, strict=True)) / s
                spread[k] += sum(
                    container.below[c] * (one - mean) ** 2 for c, one in zip(members, a, strict=True)
                )
                means.append(mean)
            share = sum(container.carried[c] * container.below[c] ** 2 for c in members)
            total -= share / s
            below.append(1 / (container.group_precision + 1 / s))
            carried.append(share / s**2)
            parts.append(means)
        s = sum(below)
        variance = 1 / (container.precision + 1 / s + container.outside)
        for v, b in zip(below, carried, strict=True):
            total += b * (v - v * v / s + (v / s) ** 2 * variance)
        total += (container.outside_weight + container.own_weight) * variance
        for k, weight in enumerate(container.weight.tolist()):
            mean = sum(v * part[k] for v, part in zip(below, parts, strict=True)) / s
            inner = spread[k] + sum(v * (part[k] - mean) ** 2 for v, part in zip(below, parts, strict=True))
            total += weight * (inner + (mean + float(container.outside_slope[k])) ** 2 * variance)
        return float(total)

    groups = group_of.tolist()
    start = current = objective(groups)
    for _ in range(passes):
        old = list(groups)
        for c in range(n):
            best, chosen = current - TOLERANCE * abs(current), -1
            empty = next((h for h in range(n) if h not in groups), -1)
            for h in range(n):
                if h == groups[c] or groups.count(h) >= container.limit or (h not in groups and h != empty):
                    continue
                if h not in groups and groups.count(groups[c]) == 1:
                    continue
                value = objective([*groups[:c], h, *groups[c + 1 :]])
                if value < best:
                    best, chosen = value, h
            if chosen >= 0:
                groups[c], current = chosen, best
        for g in range(n):
            for h in range(g + 1, n):
                if g in groups and h in groups and groups.count(g) + groups.count(h) <= container.limit:
                    tried = [g if one == h else one for one in groups]
                    value = objective(tried)
                    if value < current - TOLERANCE * abs(current):
                        groups, current = tried, value
        if groups == old:
            break
    group_of[:] = groups
    return start, current
