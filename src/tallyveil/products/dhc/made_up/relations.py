"""Positions of the levels of relgq: relationships in households, and types of group quarters."""

from typing import Final

import numpy as np

from tallyveil.arrays import Int8s

ALONE, HOUSEHOLDER = 0, 1
"""Householder who lives alone, and householder with others."""
SPOUSE, PARTNER, SAME_SEX_SPOUSE, SAME_SEX_PARTNER = 2, 3, 4, 5
CHILD, ADOPTED_CHILD, STEPCHILD = 6, 7, 8
SIBLING, PARENT, GRANDCHILD, PARENT_IN_LAW, CHILD_IN_LAW, OTHER_RELATIVE = 9, 10, 11, 12, 13, 14
ROOMMATE, FOSTER_CHILD, OTHER_NONRELATIVE = 15, 16, 17

COUPLED: Final = (SPOUSE, PARTNER, SAME_SEX_SPOUSE, SAME_SEX_PARTNER)
OWN_CHILDREN: Final = (CHILD, ADOPTED_CHILD, STEPCHILD)
RELATIVES: Final = (SPOUSE, SAME_SEX_SPOUSE, *range(CHILD, OTHER_RELATIVE + 1))
"""Unmarried partners, roommates, foster children and other nonrelatives are none."""
N_RELATIONS: Final = 18
"""Relationships in households come first, then 24 types of group quarters."""

CLASS_FIRST: Final = (0, 18, 24, 27, 28, 33, 34, 36)
"""By code of hhgq, the first level of relgq in it. The levels of a class follow each other."""
N_LEVELS: Final = 42
"""18 relationships and 24 types of group quarters."""

OLDEST: Final = 115
"""Greatest age in preset dhc-persons."""
_ALLOWED: Final = {
    **dict.fromkeys(range(6), (15, OLDEST)),
    **dict.fromkeys((CHILD, ADOPTED_CHILD, STEPCHILD), (0, 89)),
    **dict.fromkeys((PARENT, PARENT_IN_LAW), (30, OLDEST)),
    GRANDCHILD: (0, 74),
    CHILD_IN_LAW: (15, 89),
    FOSTER_CHILD: (0, 20),
    **dict.fromkeys(range(18, 23), (15, OLDEST)),
    **dict.fromkeys((23, 31, 34, 35), (17, 65)),
    **dict.fromkeys((24, 25, 26), (0, 25)),
    27: (20, OLDEST),
    32: (3, 30),
    33: (16, 65),
    **dict.fromkeys((37, 38), (16, OLDEST)),
    39: (16, 75),
}
"""Youngest and oldest allowed age by level of relgq, as in the structural zeros of the preset; others may have any."""


def allowed_ages() -> tuple[Int8s, Int8s]:
    """The youngest and the oldest allowed age by level of relgq, as the structural zeros of preset dhc-persons say."""
    bounds = np.array([_ALLOWED.get(level, (0, OLDEST)) for level in range(N_LEVELS)], dtype=np.int8)
    return bounds[:, 0], bounds[:, 1]
