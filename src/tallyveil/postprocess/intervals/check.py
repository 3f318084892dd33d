"""What noisy measurements are held to: their joint estimate, and the exact counts and bounds beside them."""

from dataclasses import dataclass
from typing import Any

from tallyveil.postprocess.intervals.constraint_distances import ConstraintDistance, distances_of
from tallyveil.postprocess.intervals.residuals import QueryResiduals, checked_model, residuals_of
from tallyveil.postprocess.measured import Measured


@dataclass(frozen=True, slots=True)
class Check:
    """What a check of measurements says.

    Attributes:
        residuals: By geolevel and query.
        constraints: By constraint and geolevel.
        unchecked: What was not held to anything, in words.
    """

    residuals: tuple[QueryResiduals, ...]
    constraints: tuple[ConstraintDistance, ...]
    unchecked: tuple[str, ...]

    @property
    def wrong(self) -> tuple[QueryResiduals | ConstraintDistance, ...]:
        """What is beyond the limits of chance."""
        return (
            *(item for item in self.residuals if not item.is_as_stated),
            *(item for item in self.constraints if not item.is_as_stated),
        )

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "as_stated": not self.wrong,
            "residuals": [item.to_mapping() for item in self.residuals],
            "constraints": [item.to_mapping() for item in self.constraints],
            "unchecked": list(self.unchecked),
        }


def check_of(measured: Measured, workers: int = 1) -> Check:
    """Hold noisy answers to their joint estimate and to the constraints.

    Args:
        measured: Noisy measurements, opened.
        workers: Number of threads. The numbers do not depend on it.
    Raises:
        ConfigError: the noise is not Gaussian.
        TallyveilError: as `residuals_of` raises it.
    """
    checked = checked_model(measured)
    residuals, unchecked = residuals_of(measured, checked, workers)
    distances, unchecked_constraints = distances_of(measured, checked.model)
    return Check(tuple(residuals), tuple(distances), (*unchecked, *unchecked_constraints))
