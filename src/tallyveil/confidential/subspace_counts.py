"""True answers of a query plus noise in the lattice of the invariants."""

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.invariants import invariant_values
from tallyveil.schema.query_group import QueryGroup


def noisy_answers(histogram: ConfidentialHistogram, query: QueryGroup, noise: Integers) -> Integers:
    """Answers of a query at every geounit, with integer-subspace noise added.

    Args:
        histogram: True counts of the geolevel. Confidential.
        query: A partition query.
        noise: int64 [n_geounits, query.size], in the lattice of the invariants; zero in impossible cells.
    Returns:
        int64 [n_geounits, query.size], possibly negative.
    Privacy: that of the mechanism's event, between populations with the same invariants.
    """
    values = invariant_values(histogram, query)
    # The sum keeps the invariants, because the noise is zero on every one of them.
    np.add(values, noise, out=values)
    values.setflags(write=False)
    return values
