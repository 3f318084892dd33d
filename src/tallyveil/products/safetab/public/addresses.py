"""The addresses of SafeTab's noise, within those of `tallyveil.noise.address`. This layout is a stability contract.

    geolevel   the geography: USA 0, STATE 1, COUNTY 2, TRACT 3, PLACE 4, AIANNH 5,
               PR-STATE 6, PR-COUNTY 7, PR-TRACT 8, PR-PLACE 9
    query      16 * iteration level + what is measured:
               0  stage 1: the total that chooses the detail      answer = iteration
               1  a total-only group: its total, whole budget     answer = iteration - adaptive iterations
               2  stage 2, detail 0: the total                    answer = iteration
               3, 4, 5  stage 2, details 1, 2, 3: sex by age      answer = 64 * iteration + cell
               6 to 9   households, T3, details 0 to 3            answer = 64 * iteration + cell
               10, 11   households, T4, details 0 and 1           answer = 64 * iteration + cell
    geounit    position of the region among the regions of its geography, sorted by number
    answer     as above; iterations are numbered as in `View.iterations`

Each group uses only the addresses of its chosen detail. The noise at the other addresses is never published. The key is
bound to the geography, the iterations and the config, so a position cannot be used for another group.
"""

from typing import Final

from tallyveil.products.safetab.public.config import GEOGRAPHIES

STAGE_1: Final = 0
"""Query number of the total that chooses the detail. These six numbers are part of the noise's meaning: a
change of any of them gives all releases other noise."""

TOTAL_ONLY: Final = 1
"""Of the total of a total-only group."""

TOTAL: Final = 2
"""Of the stage-2 total of detail 0."""

FIRST_TABLE: Final = 3
"""Of the first table of the ladder; the others follow, so that 13 tables have room below the next level's
numbers."""

HOUSEHOLDS: Final = {"t3": 6, "t4": 10}
"""First number of each table of SafeTab-H; T3 has four details and T4 two."""

CELLS_APART: Final = 64
"""Places of a group among the answers: the least power of two with room for 46 cells. Half of it would make the
cells of neighbouring groups share their noise; twice as many would only leave more addresses unused."""

GEOLEVELS: Final = {name: n for n, name in enumerate(name for run in GEOGRAPHIES.values() for name in run)}
"""Number of each geography, counted through the US and then PR, so that no two share an address."""


def query_number(level: int, measured: int) -> int:
    """The query number for an iteration level and what is measured."""
    # 16 apart: room for stage 1, total-only, total and at most 13 tables; SafeTab-H uses the numbers from 6
    # to 11.
    return 16 * level + measured
