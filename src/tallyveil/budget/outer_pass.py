"""An outer pass over the whole spine: which counts it estimates, and how they are rounded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OuterPass:
    """One outer pass. It goes from the root to the finest geounits before the next outer pass begins.

    A pass with a part is a *lift pass*: it finds how many records of each group belong to the part, such as
    householders, so that in every finest geounit the part has a given total, or a total within limits.

    Attributes:
        cells: Query whose answers the pass counts. Its groups do not overlap.
        rounding: Queries of the rounding chain, coarse to fine. Each adds up answers of the next one, and the last adds
            up answers of `cells`. A lift pass has none.
        part: Query of one answer, which counts the part; None for a pass that is no lift pass.
        total: Name of the agreement that fixes the total of the part in every finest geounit.
        company: Query of one answer, which counts other records. Each record of the part's groups that does not belong
            to the part must have company: at least one of them. None where an agreement fixes the total.
    """

    cells: str
    rounding: tuple[str, ...]
    part: str | None = None
    total: str | None = None
    company: str | None = None

    @property
    def queries(self) -> tuple[str, ...]:
        """Every query that the pass names."""
        named = (self.cells, *self.rounding, self.part, self.company)
        return tuple(name for name in named if name is not None)

    @classmethod
    def from_mapping(cls, item: Mapping[str, Any]) -> "OuterPass":
        """The pass that plain data state."""
        lift = {key: item[key] for key in ("part", "total", "company") if key in item}
        return cls(item["cells"], tuple(item["rounding"]), **lift)

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for `plan.json`."""
        lift = {"part": self.part, "total": self.total, "company": self.company}
        given = {key: name for key, name in lift.items() if name is not None}
        return {"cells": self.cells, "rounding": list(self.rounding), **given}
