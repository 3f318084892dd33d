"""Districts of a release or plan as the page computes them, beside the same from Python."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.unit.explore.numerics.in_node import ask_node, floats

from tallyveil.estimation.intervals.answers import region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.intervals.fits import IntervalFit

District = tuple[np.ndarray, np.ndarray | None]


def random_districts(spine: Spine, n_districts: int, seed: int) -> list[District]:
    """Contiguous and scattered sets, single finest geounits, geounits of a geolevel, and a geounit with others.

    A third of them has another set that is subtracted.
    """
    rng, n = np.random.default_rng(seed), spine.n_geounits(spine.finest)

    def one(kind: int) -> np.ndarray:
        if kind == 0:
            first = int(rng.integers(n))
            return np.arange(first, min(n, first + 1 + int(rng.integers(n // 3))))
        if kind == 1:
            some = np.flatnonzero(rng.random(n) < rng.choice([0.001, 0.05, 0.2, 0.6]))
            return np.union1d(some, rng.integers(n, size=1))
        if kind == 2:
            return rng.integers(n, size=1)
        offsets = spine.finest_offsets(int(rng.integers(spine.finest)))
        geounit = int(rng.integers(len(offsets) - 1))
        inside = np.arange(offsets[geounit], offsets[geounit + 1])
        return inside if kind == 3 else np.union1d(inside, rng.integers(n, size=20))

    found = []
    for number in range(n_districts):
        minus = one(int(rng.integers(5))) if number % 3 == 0 else None
        found.append((one(number % 5), minus))
    return found


def page_variances(site: Path, districts: Sequence[District]) -> np.ndarray:
    """Variances of the page; shape (districts, answers of all tables that have a model)."""
    asked = [
        {"rows": plus.tolist(), "minus": None if minus is None else minus.tolist()}
        for plus, minus in districts
    ]
    (found,) = ask_node("variances", sites=[{"site": str(site), "districts": asked, "geolevels": []}])
    return floats(found["districts"])


def python_variances(
    fits: Sequence[IntervalFit], spine: Spine, rows: np.ndarray, districts: Sequence[District]
) -> np.ndarray:
    """The same from Python; `rows` are the numbers in the spine of the site's finest geounits."""
    regions = []
    for plus, minus in districts:
        region = region_of(spine, rows[plus])
        regions.append(region if minus is None else region - region_of(spine, rows[minus]))
    made = [region_variances(tree_covariance(fit.model), regions, fit.questions) for fit in fits]
    return np.concatenate(made, axis=1)


def require_equal(found: np.ndarray, wanted: np.ndarray) -> None:
    """Standard errors agree to nine digits. Exact counts may have a rounding error below a millionth of a count."""
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(np.sqrt(found[finite]), np.sqrt(wanted[finite]), rtol=1e-9, atol=2e-6)
    assert (wanted[finite] > 1e-3).any()
