"""An outer pass over the whole spine: which counts it estimates, and how they are rounded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Prior = Literal["shares", "company", "none"]
"""What a lift pass knows before the noisy answers: the parent's count times the child's share, or nothing. With
"company", the share is that of the records that would have no company if sizes of households were geometric."""
LIMITS: Final = ("total", "residents", "company", "at_most", "sizes")
"""Keys of a lift pass of which it has one: where the total of its part, or its limits, come from."""


@dataclass(frozen=True, slots=True)
class OuterPass:
    """One outer pass. It goes from the root to the finest geounits before the next outer pass begins.

    A pass with a part is a *lift pass*: it finds how many records of each group belong to the part, such as
    householders, so that in every finest geounit the part has a given total, or a total within limits.

    Attributes:
        cells: Query whose answers the pass counts. Its groups do not overlap.
        rounding: Queries of the rounding chain, coarse to fine. Each adds up answers of the next one, and the last adds
            up answers of `cells`. A lift pass has none.
        also: Measured queries that a later pass is fitted to. This pass is fitted to those of their answers that are
            sums of its counts.
        part: Query of one answer, which counts the part; None for a pass that is no lift pass.
        total: Name of the agreement that fixes the total of the part in every finest geounit.
        company: Query of one answer, which counts other records. Each record of the part's groups that does not belong
            to the part must have company: at least one of them.
        residents: Name of the residents who set limits: the part counts the units that they occupy.
        at_most: Query of one answer, which counts records that are fixed before the pass. The part has at most as many.
        sizes: Name of the residents to whose number the sizes of households add up. The part counts the households of
            the largest size that no earlier pass has found.
        prior: What a lift pass knows before the noisy answers.
    """

    cells: str
    rounding: tuple[str, ...]
    also: tuple[str, ...] = ()
    part: str | None = None
    total: str | None = None
    company: str | None = None
    residents: str | None = None
    at_most: str | None = None
    sizes: str | None = None
    prior: Prior = "shares"

    @property
    def limits(self) -> dict[str, str]:
        """The keys of `LIMITS` that the pass has."""
        given = {
            "total": self.total,
            "residents": self.residents,
            "company": self.company,
            "at_most": self.at_most,
            "sizes": self.sizes,
        }
        return {key: name for key, name in given.items() if name is not None}

    @property
    def queries(self) -> tuple[str, ...]:
        """Every query that the pass names."""
        named = (self.cells, *self.rounding, *self.also, self.part, self.company, self.at_most)
        return tuple(name for name in named if name is not None)

    @classmethod
    def from_mapping(cls, item: Mapping[str, Any]) -> "OuterPass":
        """The pass that plain data state."""
        lift = {key: item[key] for key in ("part", *LIMITS, "prior") if key in item}
        return cls(item["cells"], tuple(item["rounding"]), tuple(item.get("also", ())), **lift)

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for `plan.json`."""
        lift = {} if self.part is None else {"part": self.part, **self.limits, "prior": self.prior}
        also = {"also": list(self.also)} if self.also else {}
        return {"cells": self.cells, "rounding": list(self.rounding), **also, **lift}
