"""The classes that a map colours its areas by: for every answer of a table, over all areas of a kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats
from tallyveil.explore.limits import Frequencies, class_limits
from tallyveil.explore.rows import COUNT, Block
from tallyveil.storage.json_files import JsonObject

PUBLISHED: Final = "published"
SHARE: Final = "share"
ERROR: Final = "standard_error"
RELATIVE: Final = "relative_standard_error"


@dataclass(slots=True, eq=False)
class ClassLimits:
    """Collects the values of one table, block by block.

    Attributes:
        size: Number of answers.
        totals: For every area of the kind the count that shares are of; None without shares.
    """

    size: int
    totals: NDArray[np.int64] | None
    _frequencies_of: dict[str, list[list[Frequencies]]] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Add the values of some areas."""
        for measure, values in self._measures(block).items():
            self._frequencies_of.setdefault(measure, []).append(_frequencies(values))

    def to_mapping(self) -> JsonObject:
        """For each measure a list with an entry for each answer: its classes."""
        return {
            "format": 1,
            "measures": {
                measure: [class_limits(_together(parts)) for parts in zip(*frequencies, strict=True)]
                for measure, frequencies in self._frequencies_of.items()
            },
        }

    def _measures(self, block: Block) -> Mapping[str, NDArray[Any]]:
        counts = block.columns[COUNT]
        measures: dict[str, NDArray[Any]] = {PUBLISHED: counts}
        if self.totals is not None:
            measures[SHARE] = _ratio(counts, self.totals[block.start : block.start + block.n, None])
        if "standard_error" in block.columns:
            measures[ERROR] = block.columns["standard_error"]
            measures[RELATIVE] = _ratio(measures[ERROR], counts)
        return measures


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> Floats:
    """Quotients; NaN where the divisor is not positive."""
    ratio: Floats = np.full(above.shape, np.nan)
    np.divide(above, below, out=ratio, where=np.broadcast_to(below > 0, above.shape))
    return ratio


def _frequencies(values: NDArray[Any]) -> list[Frequencies]:
    """The different values of each column and how often they occur, without NaN."""
    ordered = np.sort(values.T, axis=1)  # NaN comes last
    begins = np.ones(ordered.shape, dtype=np.bool_)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    sizes = np.full(len(ordered), ordered.shape[1])
    if values.dtype.kind == "f":
        missing = np.isnan(ordered)
        begins &= ~missing
        sizes -= missing.sum(axis=1)
    frequencies = []
    for values_of_class, first, size in zip(ordered, begins, sizes.tolist(), strict=True):
        places = np.flatnonzero(first)
        frequencies.append(Frequencies(values_of_class[places], np.diff(places, append=size)))
    return frequencies


def _together(parts: Sequence[Frequencies]) -> Frequencies:
    """The frequencies of all areas of several parts."""
    values, places = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
    areas = np.zeros(len(values), dtype=np.int64)
    np.add.at(areas, places, np.concatenate([part.areas for part in parts]))
    return Frequencies(values, areas)
