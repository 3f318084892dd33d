"""Limits of the classes that a map colours its areas by: for every answer of a table, over all areas of a kind.

A class holds the values from its limit up to the next one. The limits cut the distinct values, in rising order, into
parts of equal size, so that a value which many areas have takes one class and not several.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats
from tallyveil.explore.rows import COUNT, Block
from tallyveil.storage.json_files import JsonObject

CLASSES: Final = 7
PUBLISHED: Final = "published"
SHARE: Final = "share"
ERROR: Final = "standard_error"
RELATIVE: Final = "relative_standard_error"
DIGITS: Final = 4
"""Significant digits of the limits of shares and of relative standard errors, whose values are not decimal."""


@dataclass(slots=True, eq=False)
class ClassLimits:
    """Collects the values of one table, block by block.

    Attributes:
        size: Number of answers.
        totals: For every area of the kind the count that shares are of; None without shares.
    """

    size: int
    totals: NDArray[np.int64] | None
    _found: dict[str, list[list[NDArray[Any]]]] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Add the values of some areas."""
        for measure, values in self._measures(block).items():
            self._found.setdefault(measure, []).append(_distinct(values))

    def to_mapping(self) -> JsonObject:
        """For each measure a list with an entry for each answer: the least and greatest value and the class limits."""
        return {
            "format": 1,
            "measures": {
                measure: [
                    _entry(np.unique(np.concatenate(own)), DIGITS if measure in (SHARE, RELATIVE) else None)
                    for own in zip(*found, strict=True)
                ]
                for measure, found in self._found.items()
            },
        }

    def _measures(self, block: Block) -> Mapping[str, NDArray[Any]]:
        counts = block.columns[COUNT]
        found: dict[str, NDArray[Any]] = {PUBLISHED: counts}
        if self.totals is not None:
            found[SHARE] = _ratio(counts, self.totals[block.start : block.start + block.n, None])
        if "standard_error" in block.columns:
            found[ERROR] = block.columns["standard_error"]
            found[RELATIVE] = _ratio(found[ERROR], counts)
        return found


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> Floats:
    """Quotients; NaN where the divisor is not positive."""
    found: Floats = np.full(above.shape, np.nan)
    np.divide(above, below, out=found, where=np.broadcast_to(below > 0, above.shape))
    return found


def _distinct(values: NDArray[Any]) -> list[NDArray[Any]]:
    """The different values of each column, in rising order, without NaN."""
    ordered = np.sort(values.T, axis=1)  # NaN comes last
    differs = np.ones(ordered.shape, dtype=np.bool_)
    differs[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    if values.dtype.kind == "f":
        differs &= ~np.isnan(ordered)
    return [own[kept] for own, kept in zip(ordered, differs, strict=True)]


def _entry(values: NDArray[Any], digits: int | None) -> JsonObject | None:
    """Least and greatest value and class limits of one answer; None without values."""
    n = len(values)
    if not n:
        return None
    chosen = values[[part * n // CLASSES for part in range(1, CLASSES)]] if n > CLASSES else values[1:]
    limits = [value if digits is None else float(f"{value:.{digits}g}") for value in chosen.tolist()]
    return {"least": values[0].item(), "most": values[-1].item(), "limits": sorted(set(limits))}
