"""Exact integer noise: certified probability laws, inversion tables, and one keyed source with an address per draw."""

from typing import TYPE_CHECKING, Any

from tallyveil.noise.key import derive_key, insecure_key, new_run_key
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law

if TYPE_CHECKING:
    from tallyveil.noise.source import NoiseSource

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Law",
    "NoiseSource",
    "derive_key",
    "insecure_key",
    "new_run_key",
]


def __getattr__(name: str) -> Any:
    # The source imports the compiler. Planning needs only the laws and should start at once.
    if name == "NoiseSource":
        from tallyveil.noise.source import NoiseSource

        return NoiseSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
