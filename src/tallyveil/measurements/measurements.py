"""Noisy measurements, as they leave the wall."""

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
        first_geounit: Index of the geounit in row 0.
        answers: For each column, the number of its answer, ascending; shape (n_answers,).
        values: True answer plus noise, possibly negative; int64, shape (n_geounits, n_answers).
        variances: For each geounit, the variance of the noise of its values, in squared counts; shape (n_geounits,).
            Unmeasured geounits have infinite variance, and their values are 0 and carry no information.
    """

    geolevel: str
    query: str
    first_geounit: int
    answers: Integers
    values: Integers
    variances: NDArray[np.float64]
