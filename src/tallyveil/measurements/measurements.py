"""Noisy measurements: what crosses the wall."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMeasurements:
    """Noisy answers of one query group for consecutive geounits of one geolevel.

    Attributes:
        geolevel: Name of the geolevel.
        query: Name of the query group.
        first_geounit: Index of the geounit of row 0.
        answers: Which answer of the query each column holds, ascending; shape (n_answers,).
        values: True answer plus noise, may be negative; int64, shape (n_geounits, n_answers).
        variance: Variance of the noise of every value, persons squared.
    """

    geolevel: str
    query: str
    first_geounit: int
    answers: Int64Array
    values: Int64Array
    variance: float


class MeasurementSource(Protocol):
    """Where noisy answers come from: behind the wall on request, or files written earlier. Both agree exactly."""

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Int64Array
    ) -> NoisyMeasurements:
        """Noisy values of the listed answers for geounits start..stop of a geolevel."""
        ...
