"""Noisy measurements: what crosses the wall."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMeasurements:
    """Noisy answers of one query group for consecutive geounits of one geolevel.

    Attributes:
        geolevel: Name of the geolevel.
        query: Name of the query group.
        first_geounit: Index of the geounit of row 0.
        answers: Which answer of the query each column holds, ascending; shape (n_answers,).
        values: True answer plus noise, may be negative; int64, shape (n_geounits, n_answers).
        variances: Variance of the noise of each geounit's values, persons squared; shape (n_geounits,). Infinite
            where a geounit is not measured: its values are 0 then and say nothing.
    """

    geolevel: str
    query: str
    first_geounit: int
    answers: Integers
    values: Integers
    variances: NDArray[np.float64]
