"""Population groups with adaptive detail: SafeTab's two stages, by its own measuring code.

Every region is a run of its own, since each has noise of its own. There are as many independent runs as regions. On the
second side each region has one person more, who counts in two population groups. Thresholds lie so near the counts
that every detail is chosen now and then.

An output has, for each of the person's groups, what was chosen and what was measured: the total of stage 1, the
indicator of each detail, and for each detail the noisy count that the person moves.
"""

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tests.auditors.drawing.claims import claim_of
from tests.auditors.outputs import Outputs
from tests.safetab_regions import BASE, CELL, measured, plan_of_tracts

from tallyveil.products.safetab.public.ages import DETAILS
from tallyveil.products.safetab.public.group_numbers import GroupMeasurements
from tallyveil.products.safetab.public.levels import NEIGHBOURS

BUDGETS: Final = (("puredp", "3/2"), ("zcdp", "7/10"))


def draw(number: int) -> Iterator[Outputs]:
    """The outputs under both notions of privacy, so many on each side."""
    for mechanism, budget in BUDGETS:
        with tempfile.TemporaryDirectory() as folder:
            plan = plan_of_tracts(Path(folder), mechanism, float(Fraction(budget)))
        (run,) = plan.runs
        (one,) = run.sets
        sides = [measured(one, BASE + more, number, f"auditors: {mechanism} {more}") for more in (0, 1)]
        declared = {"rho" if mechanism == "zcdp" else "epsilon": Fraction(budget)}
        claim = claim_of(run.event(), neighbours=NEIGHBOURS, delta=Fraction(1, 100), **declared)
        rows = [np.concatenate([_columns(part, side.groups) for part in side.parts]) for side in sides]
        yield Outputs(f"groups-{mechanism}", rows[0], rows[1], sides[0].scores, sides[1].scores, claim)


def _columns(part: GroupMeasurements, groups: NDArray[np.int64]) -> NDArray[np.int32]:
    width = part.stage_1.shape[1]
    columns = []
    for group in groups.tolist():
        stage_1, chosen = part.stage_1[:, group], part.detail[:, group]
        counts = [np.where(chosen == 0, part.totals[:, group], 0)]
        for detail, table in zip(DETAILS, part.tables, strict=True):
            regions, iterations = np.divmod(table.places, width)
            own = iterations == group
            count = np.zeros(len(chosen), np.int64)
            count[regions[own]] = table.values[own, int(detail.cell_of_finest()[CELL])]
            counts.append(count)
        columns.append(stage_1)
        for number, count in enumerate(counts):
            here = chosen == number
            columns += [here, count, np.where(here, stage_1, 0)]
    return np.column_stack(columns).astype(np.int32)
