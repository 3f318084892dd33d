"""An outer pass over the whole spine: which counts it estimates, and how they are rounded."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OuterPass:
    """One outer pass. It goes from the root to the finest geounits before the next outer pass begins.

    Attributes:
        cells: Query whose answers the pass counts. Its groups do not overlap.
        rounding: Queries of the rounding chain, coarse to fine. Each adds up answers of the next one, and the last adds
            up answers of `cells`.
    """

    cells: str
    rounding: tuple[str, ...]
