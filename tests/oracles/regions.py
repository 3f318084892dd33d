"""Slow and obvious specifications of the kernels in `tallyveil.kernels.tree.sweep`."""

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.tree.sweep import Children, Packing, Parents, Slopes


def step_up_reference(
    packing: Packing,
    children: Children,
    parents: Parents,
    same: bool,
    first: int,
    last: int,
    above: Slopes,
) -> None:
    """Specification of `step_up`: the formulas with numpy's matrices, class by class."""
    dims, begin = packing
    entries, filtered, unknown, below = children
    for i in range(first, last):
        for k, d in enumerate(dims):
            own = slice(int(begin[k]), int(begin[k + 1]))

            def block(array: Floats, row: int, own: slice = own, d: int = int(d)) -> Floats:
                return array[row, own].reshape(d, d) if len(array) else np.zeros((d, d))

            a1 = b1 = a2 = b2 = both = np.zeros((d, d))
            for e in range(int(entries.begin[i]), int(entries.begin[i + 1])):
                p, u = block(filtered, int(entries.blocks[e])), block(unknown, int(entries.blocks[e]))
                t = int(entries.place[e])
                one, other, joint = (
                    np.eye(d) * entries.first[e],
                    np.eye(d) * entries.second[e],
                    p * entries.product[e],
                )
                if t >= 0:
                    one, other = block(below.first, t), block(below.first if same else below.second, t)
                    joint = block(below.covariance, t) + one @ p @ other.T
                a1, b1, both = a1 + one @ p, b1 + other @ p, both + joint
                a2, b2 = a2 + one @ u, b2 + other @ u
            row = int(parents.rows[i])
            g, x, y = block(parents.gain, row), block(parents.slope, row), block(parents.excess, row)
            above.first[i, own] = (a1 @ g + a2 @ x).ravel()
            if not same:
                above.second[i, own] = (b1 @ g + b2 @ x).ravel()
            shared = a2 @ x @ b1.T + a1 @ x.T @ b2.T
            above.covariance[i, own] = (both - a1 @ g @ b1.T - shared + a2 @ y @ b2.T).ravel()
